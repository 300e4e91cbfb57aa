// A target and a cache for drafters that look at neither. Tests only.
#pragma once

#include <span>
#include <vector>

#include "kv/view.h"
#include "model/model.h"

namespace firesteel {

class BareTarget : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType) const override { return {}; }
  Status Forward(Exec&, const ForwardBatch&, const KvView&, Workspace&,
                 ForwardOutput&) const override {
    return Internal("a bare target computes nothing");
  }
  const WeightView* embedding() const override { return nullptr; }
  const PackedWeight* lm_head() const override { return nullptr; }

 private:
  ModelInfo info_;
};

class NoCache : public KvView {
 public:
  PagedPlane Plane(int32_t, int32_t, int32_t) const override { return {}; }
  std::span<const BlockId> Table(SequenceSlot, int32_t) const override { return {}; }
};

}  // namespace firesteel
