#include "speculation/acceptance_model.h"

#include <gtest/gtest.h>

#include <random>

#include "speculation/drafter.h"

namespace firesteel {
namespace {

SamplingParams Temperature(double t) {
  SamplingParams sampling;
  sampling.temperature = t;
  return sampling;
}

std::vector<float> Expected(const AcceptanceModel& model, double temperature, int32_t length,
                            const RequestAcceptance& request = {}) {
  std::vector<float> chances;
  model.Expect(Temperature(temperature), request, length, &chances);
  return chances;
}

Draft Whole(int32_t length, std::vector<float> confidence = {}) {
  Draft draft;
  draft.tokens.assign(static_cast<size_t>(length), 0);
  draft.confidence = std::move(confidence);
  return draft;
}

TEST(AcceptanceModel, LearnsEachPositionOfAClassOfTemperatures) {
  AcceptanceModel model(4);
  const float before = Expected(model, 1, 1)[0];
  const Draft draft = Whole(4);
  for (int i = 0; i < 400; ++i) {
    RequestAcceptance request;  // many requests
    model.Learn(Temperature(0), PreTokenConfidence(draft), 4, i % 2 == 0 ? 2 : 0, &request);
  }
  const std::vector<float> chances = Expected(model, 0, 4);
  EXPECT_NEAR(chances[0], 0.5, 0.03);
  EXPECT_GT(chances[1], 0.95);
  EXPECT_LT(chances[2], 0.05);
  EXPECT_NEAR(chances[3], 0.7, 0.01);           // never reached
  EXPECT_EQ(Expected(model, 1, 1)[0], before);  // another class
}

TEST(AcceptanceModel, ARequestThatFaresWorseIsExpectedTo) {
  AcceptanceModel model(2);
  const Draft draft = Whole(2);
  RequestAcceptance good, bad;
  for (int i = 0; i < 300; ++i) {
    model.Learn(Temperature(0), PreTokenConfidence(draft), 2, 2, &good);
    model.Learn(Temperature(0), PreTokenConfidence(draft), 2, 0, &bad);
  }
  EXPECT_GT(Expected(model, 0, 1, good)[0], 0.6);
  EXPECT_LT(Expected(model, 0, 1, bad)[0], 0.2);
  // A record fades while nothing is drafted.
  for (int i = 0; i < 100; ++i) model.Learn(Temperature(0), PreTokenConfidence(draft), 0, 0, &bad);
  EXPECT_NEAR(Expected(model, 0, 1, bad)[0], Expected(model, 0, 1)[0], 0.01);
}

// A head that is far too sure of itself.
TEST(AcceptanceModel, CalibratesAHead) {
  AcceptanceModel model(1);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0, 1);
  RequestAcceptance request;
  const auto truth = [](float confidence) { return 0.2 + 0.5 * (confidence - 0.5); };
  for (int i = 0; i < 5000; ++i) {
    const float confidence = 0.5f + 0.5f * uniform(random);
    const Draft draft = Whole(1, {confidence});
    model.Learn(Temperature(1), PreTokenConfidence(draft), 1,
                uniform(random) < truth(confidence) ? 1 : 0, &request);
  }
  std::vector<float> chances;
  for (const float confidence : {0.6f, 0.75f, 0.9f}) {
    const Draft draft = Whole(1, {confidence});
    model.Calibrate(Temperature(1), {}, PreTokenConfidence(draft), &chances);
    EXPECT_NEAR(chances[0], truth(confidence), 0.1) << confidence;
  }
  EXPECT_LT(model.calibration()[0].Ece(), 0.05);
  EXPECT_LT(model.calibration()[0].Brier(), 0.26);
  EXPECT_GT(model.calibration()[0].Brier(), 0.1);
}

TEST(AcceptanceModel, SurvivesOddConfidences) {
  AcceptanceModel model(3);
  RequestAcceptance request;
  const Draft draft = Whole(3, {0.0f, 1.0f, std::numeric_limits<float>::quiet_NaN()});
  for (int i = 0; i < 50; ++i) {
    model.Learn(Temperature(0), PreTokenConfidence(draft), 3, i % 4, &request);
  }
  std::vector<float> chances;
  model.Calibrate(Temperature(0), request, PreTokenConfidence(draft), &chances);
  for (const float c : chances) {
    EXPECT_GE(c, 0.0f);
    EXPECT_LT(c, 1.0f);
  }
  // More positions than a draft may have.
  EXPECT_EQ(Expected(model, 0, 9).size(), 9u);
}

}  // namespace
}  // namespace firesteel
