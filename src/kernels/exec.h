// What a kernel runs on. Passed by reference through every forward pass; a GPU backend would put
// its stream here.
#pragma once

#include "base/thread_pool.h"

namespace firesteel {

struct Exec {
  ThreadPool& pool;
};

}  // namespace firesteel
