// Matrix products of other libraries, over weights beyond cache like ours. Each file here knows one
// library and keeps its exceptions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace firesteel {

// out[rows, n] = x[rows, k] w[n, k]^T. The threads of a library are set anew by each call: two
// libraries in one process do not ask each other.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string Name() const = 0;  // with the type it computes in: "oneDNN u8s8"
  // A call that multiplies by the next weights. Null where the library has no kernel for it here.
  virtual std::function<void()> MatMul(int64_t rows, int threads) = 0;
  // What the last call wrote: the largest difference from `expected`, of the largest of `expected`.
  // A library that is wrong on this machine must not be compared with.
  virtual double Error(std::span<const float> expected) const = 0;
};

enum class OneDnnType { kF32, kBF16, kU8S8 };

// `x` [rows up to 512, k] and `w` [n, k] are the values to use; u8s8 rounds them.
std::unique_ptr<Peer> MakeOneDnn(OneDnnType type, int64_t n, int64_t k, std::span<const float> x,
                                 std::span<const float> w, int64_t rotation_bytes);
std::unique_ptr<Peer> MakeOpenBlas(int64_t n, int64_t k, std::span<const float> x,
                                   std::span<const float> w, int64_t rotation_bytes);

}  // namespace firesteel
