#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel_bench/peers.h"
#include "tensor/buffer.h"

namespace firesteel {
namespace {

class OpenBlas : public Peer {
 public:
  OpenBlas(int64_t n, int64_t k, std::span<const float> x, std::span<const float> w,
           int64_t rotation_bytes)
      : n_(n), k_(k), x_(x) {
    const auto count = rotation_bytes / static_cast<int64_t>(w.size_bytes()) + 1;
    weights_ = Buffer<float>(count * n * k);
    for (int64_t i = 0; i < count; ++i) {
      std::copy(w.begin(), w.end(), weights_.data() + i * n * k);
    }
    out_ = Buffer<float>(static_cast<int64_t>(x.size()) / k * n);
  }

  std::string Name() const override { return "OpenBLAS f32"; }

  std::function<void()> MatMul(int64_t rows, int threads) override {
    return [this, rows, threads] {
      openblas_set_num_threads(threads);
      next_ = (next_ + 1) % (weights_.size() / (n_ * k_));
      const float* w = weights_.data() + next_ * n_ * k_;
      const auto n = static_cast<blasint>(n_), k = static_cast<blasint>(k_);
      if (rows == 1) {
        cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, 1, w, k, x_.data(), 1, 0, out_.data(), 1);
        return;
      }
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows), n, k, 1,
                  x_.data(), k, w, k, 0, out_.data(), n);
    };
  }

  double Error(std::span<const float> expected) const override {
    double largest = 0, difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max<double>(largest, std::fabs(expected[i]));
      difference = std::max<double>(difference, std::fabs(expected[i] - out_.data()[i]));
    }
    return difference / largest;
  }

 private:
  int64_t n_, k_;
  std::span<const float> x_;
  Buffer<float> weights_, out_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Peer> MakeOpenBlas(int64_t n, int64_t k, std::span<const float> x,
                                   std::span<const float> w, int64_t rotation_bytes) {
  return std::make_unique<OpenBlas>(n, k, x, w, rotation_bytes);
}

}  // namespace firesteel
