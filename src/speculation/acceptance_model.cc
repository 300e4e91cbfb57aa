#include "speculation/acceptance_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sampling/params.h"
#include "speculation/draft_tree.h"

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
    p.NoteHistory(outcome);
    if (judged) p.NoteConfidence(said, chance - outcome);
    NoteCalibration(j, chance, outcome);
  }
}

PreTokenConfidence AcceptanceModel::Rank(const SamplingParams& sampling,
                                         const RequestAcceptance& request, const Draft& tree,
                                         std::vector<float>* chances,
                                         std::vector<int32_t>* order) const {
  const size_t count = tree.tokens.size();
  std::vector<int32_t> levels;
  LevelsOf(tree, &levels);
  std::vector<float> survival(count);
  // By parent: the next child's share of its level's chance. They add up to 1.
  std::vector<double> share(count + 1, 0.5);
  for (const int32_t parent : tree.parents) share[static_cast<size_t>(parent + 1)] /= 2;
  for (double& s : share) s = s < 0.5 ? 0.5 / (1 - 2 * s) : 0;
  for (size_t i = 0; i < count; ++i) {
    const auto parent = static_cast<size_t>(tree.parents[i] + 1);
    const Position& p = positions_[Index(sampling, levels[i])];
    double chance;
    if (tree.confidence.empty()) {
      chance = p.ByHistory() * share[parent];
      share[parent] /= 2;
    } else {
      chance = p.ByConfidence(tree.confidence[i]);
    }
    const float before = parent == 0 ? 1.0f : survival[parent - 1];
    survival[i] = before * ForRequest(chance, request);
  }
  order->resize(count);
  std::iota(order->begin(), order->end(), 0);
  // A node is never likelier than its parent, and stands behind it among equals.
  std::ranges::stable_sort(*order, [&](int32_t a, int32_t b) {
    return survival[static_cast<size_t>(a)] > survival[static_cast<size_t>(b)];
  });
  chances->clear();
  float before = 1.0f;
  for (const int32_t node : *order) {
    const float now = survival[static_cast<size_t>(node)];
    chances->push_back(before > 0 ? now / before : 0.0f);
    before = now;
  }
  return PreTokenConfidence(std::span<const float>(*chances));
}

void AcceptanceModel::LearnTree(const SamplingParams& sampling, const Draft& tree,
                                std::span<const int32_t> path, RequestAcceptance* request) {
  request->accepted *= kRequestFade;
  request->expected *= kRequestFade;
  for (int32_t j = 0; j < max_tokens_; ++j) {
    const auto level = static_cast<size_t>(j);
    const int32_t parent = j == 0 ? -1 : path[level - 1];
    if (!HasChild(tree, parent)) return;
    Position& p = positions_[Index(sampling, j)];
    const double outcome = level < path.size() ? 1 : 0;
    double base = 0;
    for (auto i = static_cast<size_t>(parent + 1); i < tree.tokens.size(); ++i) {
      if (tree.parents[i] != parent || tree.confidence.empty()) continue;
      const bool kept = outcome > 0 && path[level] == static_cast<int32_t>(i);
      const double of_node = p.ByConfidence(tree.confidence[i]);
      const double chance = ForRequest(of_node, *request);
      base += of_node;
      p.NoteConfidence(tree.confidence[i], chance - (kept ? 1 : 0));
      NoteCalibration(j, chance, kept ? 1 : 0);
    }
    if (tree.confidence.empty()) {
      base = p.ByHistory();
      NoteCalibration(j, ForRequest(base, *request), outcome);
    }
    request->accepted += outcome;
    request->expected += std::min(base, 1.0);
    p.NoteHistory(outcome);
    if (outcome == 0) return;
  }
}

void AcceptanceModel::Position::NoteHistory(double outcome) {
  reached = kFade * reached + 1;
  accepted = kFade * accepted + outcome;
}

void AcceptanceModel::Position::NoteConfidence(float confidence, double error) {
  const double z = Logit(confidence);
  offset_moved += error * error;
  slope_moved += error * z * error * z;
  offset -= kLearningRate * error / std::sqrt(offset_moved + 1);
  slope -= kLearningRate * error * z / std::sqrt(slope_moved + 1);
  slope = std::max(slope, 0.0);
}

void AcceptanceModel::NoteCalibration(int32_t position, double chance, double outcome) {
  CalibrationStats& stats = calibration_[static_cast<size_t>(position)];
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

}  // namespace firesteel
