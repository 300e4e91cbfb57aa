#include "models/safetensors_writer.h"

#include <fmt/format.h>

#include <fstream>

#include "base/json.h"

namespace firesteel {
namespace {

int64_t RowsOf(const TensorToWrite& tensor) {
  return tensor.shape.size() == 1 ? 1 : tensor.shape.front();
}

std::string Header(std::span<const TensorToWrite> tensors) {
  Json header = Json::object();
  int64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const int64_t end = begin + RowsOf(tensor) * tensor.shape.back() * 2;
    header[tensor.name] = {
        {"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = DumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors) {
  std::ofstream file(path, std::ios::binary);
  const std::string header = Header(tensors);
  const uint64_t size = header.size();
  file.write(reinterpret_cast<const char*>(&size), 8);
  file.write(header.data(), static_cast<std::streamsize>(size));
  for (const TensorToWrite& tensor : tensors) {
    std::vector<uint16_t> row(static_cast<size_t>(tensor.shape.back()));
    for (int64_t r = 0; r < RowsOf(tensor); ++r) {
      tensor.source(r, row);
      file.write(reinterpret_cast<const char*>(row.data()),
                 static_cast<std::streamsize>(row.size() * 2));
    }
  }
  file.close();
  if (!file) return InvalidArgument(fmt::format("{}: cannot be written", path));
  return {};
}

}  // namespace firesteel
