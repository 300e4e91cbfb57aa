#include "speculation/acceptance_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sampling/params.h"

namespace firesteel {
namespace {

// Before anything is known: a little optimism, worth a few observations, so that drafts are tried.
constexpr double kPriorChance = 0.7;
constexpr double kPriorWeight = 4;
constexpr double kFade = 0.998;       // of a position's counts, with each observation
constexpr double kRequestFade = 0.9;  // of a request's, with each round
constexpr double kRequestPrior = 2;   // tokens that a request's own record must outweigh
constexpr double kCalibrationFade = 0.999;
constexpr double kLearningRate = 0.2;
constexpr double kMaxLogit = 8;
constexpr double kMaxChance = 0.995;  // a certainty would be verified at any price

double Logit(double p) {
  if (!(p > 0)) return -kMaxLogit;
  return p >= 1 ? kMaxLogit : std::clamp(std::log(p / (1 - p)), -kMaxLogit, kMaxLogit);
}

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

size_t ClassOf(const SamplingParams& sampling) {
  if (IsGreedy(sampling)) return 0;
  return sampling.temperature <= 0.7 ? 1 : 2;
}

// A chance with its odds scaled by how the request fares.
float ForRequest(double chance, const RequestAcceptance& request) {
  const double ratio = (request.accepted + kRequestPrior) / (request.expected + kRequestPrior);
  const double odds = chance / (1 - std::min(chance, kMaxChance)) * ratio * ratio;
  return static_cast<float>(std::min(odds / (1 + odds), kMaxChance));
}

}  // namespace

double CalibrationStats::Count() const { return std::accumulate(count.begin(), count.end(), 0.0); }

double CalibrationStats::Ece() const {
  double error = 0;
  for (size_t b = 0; b < kBins; ++b) error += std::abs(predicted[b] - accepted[b]);
  return Count() > 0 ? error / Count() : 0;
}

double CalibrationStats::Brier() const { return Count() > 0 ? squares / Count() : 0; }

AcceptanceModel::AcceptanceModel(int32_t max_tokens)
    : max_tokens_(std::max(max_tokens, 1)),
      positions_(static_cast<size_t>(kClasses * max_tokens_)),
      calibration_(static_cast<size_t>(max_tokens_)) {}

double AcceptanceModel::Position::ByHistory() const {
  return (accepted + kPriorWeight * kPriorChance) / (reached + kPriorWeight);
}

double AcceptanceModel::Position::ByConfidence(float confidence) const {
  return Sigmoid(offset + slope * Logit(confidence));
}

size_t AcceptanceModel::Index(const SamplingParams& sampling, int32_t position) const {
  return ClassOf(sampling) * static_cast<size_t>(max_tokens_) +
         static_cast<size_t>(std::min(position, max_tokens_ - 1));
}

ChancesKnownBefore AcceptanceModel::Expect(const SamplingParams& sampling,
                                           const RequestAcceptance& request, int32_t length,
                                           std::vector<float>* chances) const {
  chances->clear();
  for (int32_t j = 0; j < length; ++j) {
    const Position& p = positions_[Index(sampling, j)];
    chances->push_back(ForRequest(p.ByHistory(), request));
  }
  return ChancesKnownBefore(PreTokenConfidence(std::span<const float>(*chances)));
}

PreTokenConfidence AcceptanceModel::Calibrate(const SamplingParams& sampling,
                                              const RequestAcceptance& request,
                                              PreTokenConfidence confidence,
                                              std::vector<float>* chances) const {
  chances->clear();
  for (const float c : confidence.values()) {
    const auto j = static_cast<int32_t>(chances->size());
    chances->push_back(ForRequest(positions_[Index(sampling, j)].ByConfidence(c), request));
  }
  return PreTokenConfidence(std::span<const float>(*chances));
}

void AcceptanceModel::Learn(const SamplingParams& sampling, PreTokenConfidence confidence,
                            int32_t verified, int32_t accepted, RequestAcceptance* request) {
  const std::span<const float> head = confidence.values();
  request->accepted *= kRequestFade;
  request->expected *= kRequestFade;
  for (int32_t j = 0; j < std::min(verified, accepted + 1) && j < max_tokens_; ++j) {
    Position& p = positions_[Index(sampling, j)];
    const double outcome = j < accepted ? 1 : 0;
    const bool judged = static_cast<size_t>(j) < head.size();
    const float said = judged ? head[static_cast<size_t>(j)] : 0.0f;
    const double base = judged ? p.ByConfidence(said) : p.ByHistory();
    const double chance = ForRequest(base, *request);
    request->accepted += outcome;
    request->expected += base;
    p.reached = kFade * p.reached + 1;
    p.accepted = kFade * p.accepted + outcome;
    if (judged) {
      const double z = Logit(said), error = chance - outcome;
      p.offset_moved += error * error;
      p.slope_moved += error * z * error * z;
      p.offset -= kLearningRate * error / std::sqrt(p.offset_moved + 1);
      p.slope -= kLearningRate * error * z / std::sqrt(p.slope_moved + 1);
      p.slope = std::max(p.slope, 0.0);
    }
    CalibrationStats& stats = calibration_[static_cast<size_t>(j)];
    for (size_t b = 0; b < CalibrationStats::kBins; ++b) {
      stats.count[b] *= kCalibrationFade;
      stats.predicted[b] *= kCalibrationFade;
      stats.accepted[b] *= kCalibrationFade;
    }
    stats.squares *= kCalibrationFade;
    const auto bin = static_cast<size_t>(
        std::min(static_cast<int>(chance * CalibrationStats::kBins), CalibrationStats::kBins - 1));
    stats.count[bin] += 1;
    stats.predicted[bin] += chance;
    stats.accepted[bin] += outcome;
    stats.squares += (chance - outcome) * (chance - outcome);
  }
}

}  // namespace firesteel
