// The chance that a drafted token is accepted, learned while serving: from how often tokens at its
// position were, from how the request at hand fares, and from the drafter's own confidence (a head,
// the length of a match).
//
// All it gives is fixed before the tokens of the step's drafts are drawn; so what to verify may be
// decided by it under every rule (docs/speculation.md).
//
// Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "firesteel/request.h"
#include "speculation/confidence.h"

namespace firesteel {

struct Draft;

// How one request's drafts fare against what the model expects of all. Fades over some ten rounds.
struct RequestAcceptance {
  double accepted = 0;
  double expected = 0;
};

// Quality of the calibrated chances at one position, fading over some thousand observations.
struct CalibrationStats {
  static constexpr int kBins = 10;
  std::array<double, kBins> count{}, predicted{}, accepted{};
  double squares = 0;  // sum of (chance - outcome)^2

  double Count() const;
  double Ece() const;    // expected calibration error, 0 without observations
  double Brier() const;  // mean square error
};

class AcceptanceModel {
 public:
  // `max_tokens`: of a draft.
  explicit AcceptanceModel(int32_t max_tokens);

  // (*chances)[j] = P(token j + 1 accepted | those before it accepted) for j < length, by history.
  // The result looks into `chances`.
  ChancesKnownBefore Expect(const SamplingParams& sampling, const RequestAcceptance& request,
                            int32_t length, std::vector<float>* chances) const;
  // The same from what the drafter says of each token.
  PreTokenConfidence Calibrate(const SamplingParams& sampling, const RequestAcceptance& request,
                               PreTokenConfidence confidence, std::vector<float>* chances) const;

  // Of a tree, which is verified by kMatch: its nodes in the order in which they are worth their
  // rows, each behind its parent, and chances whose product up to (*order)[j] is that of this node
  // to be accepted. Where the drafter says nothing of its nodes, history tells of the levels, and
  // of brothers each is half as likely as the one before.
  PreTokenConfidence Rank(const SamplingParams& sampling, const RequestAcceptance& request,
                          const Draft& tree, std::vector<float>* chances,
                          std::vector<int32_t>* order) const;

  // A round: of a draft with these confidences (or none) `verified` tokens went to the target and
  // `accepted` were kept. Learns from the positions that were reached, accepted + 1 at most.
  void Learn(const SamplingParams& sampling, PreTokenConfidence confidence, int32_t verified,
             int32_t accepted, RequestAcceptance* request);
  // A round of a tree, of which the nodes of `path` were kept. A level is judged when a node of it
  // hangs from the path: all its brothers are.
  void LearnTree(const SamplingParams& sampling, const Draft& tree, std::span<const int32_t> path,
                 RequestAcceptance* request);

  // Over all classes of temperature.
  const std::vector<CalibrationStats>& calibration() const { return calibration_; }

 private:
  // What is known of a position at a class of temperatures.
  struct Position {
    double reached = 0, accepted = 0;  // fading
    // logit of the chance = offset + slope * logit of the confidence
    double offset = 0, slope = 1;
    double offset_moved = 0, slope_moved = 0;  // sums of squared gradients (AdaGrad)

    double ByHistory() const;
    double ByConfidence(float confidence) const;
    void NoteHistory(double outcome);
    void NoteConfidence(float confidence, double error);
  };
  static constexpr int kClasses = 3;  // greedy, to 0.7, above

  size_t Index(const SamplingParams& sampling, int32_t position) const;
  void NoteCalibration(int32_t position, double chance, double outcome);

  int32_t max_tokens_;
  std::vector<Position> positions_;  // [kClasses][max_tokens]
  std::vector<CalibrationStats> calibration_;
};

}  // namespace firesteel
