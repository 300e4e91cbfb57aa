#include "models/gguf_writer.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

namespace firesteel {
namespace {

constexpr int64_t kAlignment = 32;

enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(std::string_view value, std::string* out) {
  Put<uint64_t>(value.size(), out);
  out->append(value);
}

int64_t Padding(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

void PutKey(std::string_view key, ValueType type, uint64_t* count, std::string* out) {
  ++*count;
  PutString(key, out);
  Put<uint32_t>(type, out);
}

}  // namespace

void GgufWriter::Add(std::string_view key, std::string_view value) {
  PutKey(key, kString, &num_entries_, &metadata_);
  PutString(value, &metadata_);
}

void GgufWriter::Add(std::string_view key, uint32_t value) {
  PutKey(key, kUint32, &num_entries_, &metadata_);
  Put(value, &metadata_);
}

void GgufWriter::Add(std::string_view key, float value) {
  PutKey(key, kFloat32, &num_entries_, &metadata_);
  Put(value, &metadata_);
}

void GgufWriter::Add(std::string_view key, bool value) {
  PutKey(key, kBool, &num_entries_, &metadata_);
  Put<uint8_t>(value, &metadata_);
}

void GgufWriter::Add(std::string_view key, std::span<const std::string> values) {
  PutKey(key, kArray, &num_entries_, &metadata_);
  Put<uint32_t>(kString, &metadata_);
  Put<uint64_t>(values.size(), &metadata_);
  for (const std::string& value : values) PutString(value, &metadata_);
}

void GgufWriter::Add(std::string_view key, std::span<const int32_t> values) {
  PutKey(key, kArray, &num_entries_, &metadata_);
  Put<uint32_t>(kInt32, &metadata_);
  Put<uint64_t>(values.size(), &metadata_);
  for (const int32_t value : values) Put(value, &metadata_);
}

void GgufWriter::AddTensor(std::string name, GgmlType type, int64_t rows, int64_t cols,
                           RowSource source) {
  tensors_.push_back({std::move(name), type, rows, cols, std::move(source)});
}

std::string GgufWriter::Header() const {
  std::string header = "GGUF";
  Put<uint32_t>(3, &header);
  Put<uint64_t>(tensors_.size(), &header);
  Put<uint64_t>(num_entries_, &header);
  header += metadata_;
  int64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    PutString(tensor.name, &header);
    Put<uint32_t>(tensor.rows == 1 ? 1 : 2, &header);
    Put<uint64_t>(static_cast<uint64_t>(tensor.cols), &header);  // the fastest dimension first
    if (tensor.rows != 1) Put<uint64_t>(static_cast<uint64_t>(tensor.rows), &header);
    Put<uint32_t>(static_cast<uint32_t>(tensor.type), &header);
    Put<uint64_t>(static_cast<uint64_t>(offset), &header);
    const int64_t bytes = tensor.rows * RowBytes(tensor.type, tensor.cols);
    offset += bytes + Padding(bytes);
  }
  header.append(static_cast<size_t>(Padding(static_cast<int64_t>(header.size()))), '\0');
  return header;
}

Status GgufWriter::Write(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  const std::string header = Header();
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const Tensor& tensor : tensors_) {
    if (tensor.cols % BlockElements(tensor.type) != 0) {
      return InvalidArgument(fmt::format("{}: tensor {} has rows of {}, {} wants multiples of {}",
                                         path, tensor.name, tensor.cols, Name(tensor.type),
                                         BlockElements(tensor.type)));
    }
    std::vector<float> row(static_cast<size_t>(tensor.cols));
    std::string bytes(static_cast<size_t>(RowBytes(tensor.type, tensor.cols)), '\0');
    for (int64_t r = 0; r < tensor.rows; ++r) {
      tensor.source(r, row);
      EncodeRow(tensor.type, row, reinterpret_cast<std::byte*>(bytes.data()));
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    const std::string padding(
        static_cast<size_t>(Padding(tensor.rows * static_cast<int64_t>(bytes.size()))), '\0');
    file.write(padding.data(), static_cast<std::streamsize>(padding.size()));
  }
  file.close();
  if (!file) return InvalidArgument(fmt::format("{}: cannot be written", path));
  return {};
}

}  // namespace firesteel
