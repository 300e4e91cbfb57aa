// A step in steady state takes no memory from the system: kernels, target, drafter and cache work
// in scratch that earlier steps have grown.
//
// The engine around them is left out: the events that it hands to its callers own their tokens and
// text.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/json.h"
#include "kv/kv_cache.h"
#include "model/architectures.h"
#include "speculation/drafters.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void* Counted(void* p) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (p == nullptr) std::abort();
  return p;
}

}  // namespace

// Every way to operator new ends in one of these two; Buffer asks for aligned memory by the second
// one's function.
void* operator new(std::size_t size) { return Counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* p = nullptr;
  if (posix_memalign(&p, static_cast<std::size_t>(alignment), size) != 0) p = nullptr;
  return Counted(p);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  void* p = nullptr;
  if (posix_memalign(&p, alignment, size) != 0) p = nullptr;
  return Counted(p);
}

namespace firesteel {
namespace {

const std::string kModels = FIRESTEEL_SOURCE_DIR "/models/demo/";

// A target and a drafter over one cache, run as the engine runs them.
class Steps {
 public:
  Steps(int threads, const std::string& weight_dtype, DType kv) : pool_(threads), exec_(pool_) {
    model_ = *LoadModel(exec_, kModels + "target", {.weight_dtype = weight_dtype});
    SpeculationOptions options;
    options.method = "dspark";
    options.model = kModels + "dspark";
    CacheLayout layout{model_->CacheGroups(kv)};
    const auto first_group = static_cast<int32_t>(layout.groups.size());
    auto drafter = MakeDrafter({.exec = exec_,
                                .target = *model_,
                                .first_group = first_group,
                                .max_slots = 2,
                                .max_model_len = 512,
                                .options = options,
                                .config = Json::object()});
    FS_CHECK(drafter.ok(), "{}", drafter.status().message());
    drafter_ = *std::move(drafter);
    for (CacheGroup& group : drafter_->CacheGroups(kv)) layout.groups.push_back(group);
    cache_ = std::make_unique<KvCache>(
        layout, KvCache::Options{.block_size = 16, .num_blocks = 64, .max_slots = 2});
    cache_->Open(0, {});
    FS_CHECK(cache_->Reserve(0, 512));
    tokens_.reserve(512);
    drafts_.resize(1);
    sampling_.temperature = 0;
    distribution_.ids.reserve(static_cast<size_t>(model_->info().vocab_size));
    distribution_.probs.reserve(static_cast<size_t>(model_->info().vocab_size));
  }

  // Computes `count` rows, commits them all and drafts what follows.
  void Step(int32_t count) {
    const auto first = static_cast<int64_t>(tokens_.size());
    for (int32_t i = 0; i < count; ++i) tokens_.push_back((first + i) * 31 % 4000);
    int32_t positions[64], logit_rows[64];
    for (int32_t i = 0; i < count; ++i) {
      positions[i] = static_cast<int32_t>(first) + i;
      logit_rows[i] = i;
    }
    const auto n = static_cast<size_t>(count);
    const SequenceRows rows{0, 0, count, first};
    ForwardOutput out;
    workspace_.Reset();
    Check(model_->Forward(
        exec_,
        {std::span(tokens_).subspan(static_cast<size_t>(first)), std::span(positions, n),
         std::span(&rows, 1), std::span(logit_rows, n), drafter_->info().feature_layers},
        *cache_, workspace_, out));
    draft_workspace_.Reset();
    const CommittedRows committed{0, first, count, 0, tokens_};
    for (int32_t i = 0; i < count; ++i) {
      const Distribution& d = Processed(out.logits.RowSpan(i));
      winner_ = SampleWithNoise(d, {}, first + i, NoisePurpose::kTargetGumbel);
    }
    Check(drafter_->Observe(exec_, std::span(&committed, 1), out.features, *cache_,
                            draft_workspace_));
    draft_workspace_.Reset();
    tokens_.push_back(7);  // the anchor
    const DraftQuery query{
        .slot = 0, .tokens = tokens_, .max_tokens = 7, .sampling = &sampling_, .noise = {}};
    drafts_[0].tokens.clear();
    drafts_[0].confidence.clear();
    Check(drafter_->Propose(exec_, std::span(&query, 1), *cache_, draft_workspace_, &drafts_));
    tokens_.pop_back();
  }

 private:
  const Distribution& Processed(std::span<const float> logits) {
    SamplingParams sampling;
    sampling.temperature = 0.8;
    sampling.top_p = 0.95;
    MakeDistribution(logits, sampling, &distribution_scratch_, &distribution_);
    return distribution_;
  }
  static void Check(const Status& status) { FS_CHECK(status.ok(), "{}", status.message()); }

  ThreadPool pool_;
  Exec exec_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<KvCache> cache_;
  Workspace workspace_, draft_workspace_;
  SamplingParams sampling_;
  std::vector<int32_t> tokens_;
  std::vector<Draft> drafts_;
  DistributionScratch distribution_scratch_;
  Distribution distribution_;
  int32_t winner_ = 0;
};

TEST(NoAllocation, AStepInSteadyStateTakesNone) {
  struct Case {
    int threads;
    const char* weights;
    DType kv;
  };
  for (const auto& [threads, weights, kv] :
       {Case{1, "auto", DType::kBF16}, Case{2, "auto", DType::kBF16},
        Case{3, "int8", DType::kF8E4M3}, Case{2, "int4", DType::kF32}}) {
    Steps steps(threads, weights, kv);
    for (int i = 0; i < 2; ++i) {
      for (const int32_t rows : {64, 1, 8}) steps.Step(rows);
    }
    allocations = 0;
    counting = true;
    for (const int32_t rows : {1, 8, 3, 1, 64, 8}) steps.Step(rows);
    counting = false;
    EXPECT_EQ(allocations, 0) << threads << " threads, " << weights;
  }
}

TEST(NoAllocation, TheCounterCounts) {
  allocations = 0;
  counting = true;
  {
    const std::vector<int> a(3);
    const Buffer<float> b(100);
  }
  counting = false;
  EXPECT_EQ(allocations, 2);
}

}  // namespace
}  // namespace firesteel
