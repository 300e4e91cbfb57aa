#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "kernel_bench/peers.h"

namespace firesteel {
namespace {

using dnnl::memory;

constexpr float kWeightScale = 254;  // of [-0.5, 0.5] in int8
constexpr float kRowScale = 254;     // of [0, 1] in uint8

struct TypeRow {
  const char* name;
  memory::data_type x, w;
};

TypeRow Types(OneDnnType type) {
  switch (type) {
    case OneDnnType::kBF16:
      return {"oneDNN bf16", memory::data_type::bf16, memory::data_type::bf16};
    case OneDnnType::kU8S8:
      return {"oneDNN u8s8", memory::data_type::u8, memory::data_type::s8};
    default:
      return {"oneDNN f32", memory::data_type::f32, memory::data_type::f32};
  }
}

class OneDnn : public Peer {
 public:
  OneDnn(OneDnnType type, int64_t n, int64_t k, std::span<const float> x, std::span<const float> w,
         int64_t rotation_bytes)
      : types_(Types(type)),
        n_(n),
        k_(k),
        x_values_(x.begin(), x.end()),
        w_values_(w),
        rotation_bytes_(rotation_bytes),
        out_(x.size() / static_cast<size_t>(k) * static_cast<size_t>(n)) {
    // No zero point, so that nothing is computed beyond the product.
    if (type == OneDnnType::kU8S8) {
      for (float& v : x_values_) v = std::fabs(v);
    }
  }

  std::string Name() const override { return types_.name; }

  std::function<void()> MatMul(int64_t rows, int threads) override try {
    omp_set_num_threads(threads);
    const memory::desc x_desc({rows, k_}, types_.x, memory::format_tag::ab);
    const memory::desc out_desc({rows, n_}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc any({k_, n_}, types_.w, memory::format_tag::any);
    const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(x_desc, any, out_desc),
                                                 engine_);
    // A kernel that is plainly not made for this machine says nothing about the library.
    if (std::string(primitive.impl_info_str()).find("ref") != std::string::npos) return nullptr;
    const memory x =
        Rounded(x_values_.data(), {rows, k_}, memory::format_tag::ab, x_desc, kRowScale);
    Weights& weights = WeightsIn(primitive.weights_desc());
    const memory out(out_desc, engine_, out_.data());
    return [this, threads, x, out, matmul = dnnl::matmul(primitive), &weights]() mutable {
      omp_set_num_threads(threads);
      weights.next = (weights.next + 1) % weights.copies.size();
      matmul.execute(stream_, {{DNNL_ARG_SRC, x},
                               {DNNL_ARG_WEIGHTS, weights.copies[weights.next]},
                               {DNNL_ARG_DST, out}});
      stream_.wait();
    };
  } catch (const dnnl::error& error) {
    fmt::print(stderr, "{}, {} rows: {}\n", types_.name, rows, error.what());
    return nullptr;
  }

  double Error(std::span<const float> expected) const override {
    if (types_.x != memory::data_type::f32) return 0;  // rounds, by design
    double largest = 0, difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max<double>(largest, std::fabs(expected[i]));
      difference = std::max<double>(difference, std::fabs(expected[i] - out_[i]));
    }
    return difference / largest;
  }

 private:
  struct Weights {
    memory::desc desc;
    std::vector<memory> copies;
    size_t next = 0;
  };

  // `values` in the type and layout of `desc`; integers are multiplied by `scale`.
  memory Rounded(float* values, const memory::dims& dims, memory::format_tag tag,
                 const memory::desc& desc, float scale) {
    memory from(memory::desc(dims, memory::data_type::f32, tag), engine_, values);
    memory to(desc, engine_);
    dnnl::primitive_attr attributes;
    if (types_.w == memory::data_type::s8) attributes.set_output_scales(0, {scale});
    dnnl::reorder(dnnl::reorder::primitive_desc(from, to, attributes)).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  // The layout depends on the number of rows; sets are shared where it does not.
  Weights& WeightsIn(const memory::desc& desc) {
    for (const auto& weights : weights_) {
      if (weights->desc == desc) return *weights;
    }
    auto weights = std::make_unique<Weights>(Weights{desc, {}, 0});
    const auto count = rotation_bytes_ / static_cast<int64_t>(desc.get_size()) + 1;
    for (int64_t i = 0; i < count; ++i) {
      weights->copies.push_back(Rounded(const_cast<float*>(w_values_.data()), {k_, n_},
                                        memory::format_tag::ba, desc, kWeightScale));
    }
    weights_.push_back(std::move(weights));
    return *weights_.back();
  }

  TypeRow types_;
  int64_t n_, k_;
  std::vector<float> x_values_;
  std::span<const float> w_values_;
  int64_t rotation_bytes_;
  std::vector<float> out_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<std::unique_ptr<Weights>> weights_;
};

}  // namespace

std::unique_ptr<Peer> MakeOneDnn(OneDnnType type, int64_t n, int64_t k, std::span<const float> x,
                                 std::span<const float> w, int64_t rotation_bytes) try {
  return std::make_unique<OneDnn>(type, n, k, x, w, rotation_bytes);
} catch (const dnnl::error& error) {
  fmt::print(stderr, "oneDNN: {}\n", error.what());
  return nullptr;
}

}  // namespace firesteel
