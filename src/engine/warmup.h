// Runs every shape of step once before the first request: pages are touched, scratch has grown to
// its largest, so the first request is as fast as the hundredth.
#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "firesteel/options.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "speculation/drafter.h"
#include "speculation/step_cost.h"
#include "tensor/buffer.h"

namespace firesteel {

struct WarmupParts {
  Exec& exec;
  const Model& model;
  Drafter& drafter;
  KvCache& cache;  // no slot open; nothing stays in it
  Workspace& model_workspace;
  Workspace& draft_workspace;
  const Clock& clock;
};

// Steps of 1, 2, 4, … rows up to the largest that options and cache allow, with logits for as many
// as verification may ask. `progress` hears a fraction. `cost`, unless null, becomes what forward
// and draft passes take, measured within some ten seconds.
Status WarmUp(const WarmupParts& parts, const EngineOptions& options,
              const std::function<void(double)>& progress, StepCost* cost);

}  // namespace firesteel
