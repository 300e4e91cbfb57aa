// Quantized weights kept in files, one for each matrix that the model packs, so that the next start
// copies instead of quantizing.
//
// A file names the format, the shape, the SHA-256 of the tensors that it was made from and that of
// its own contents; both are checked whenever it is read. One that does not fit is made again, with
// one line in the log. Files are written beside their place and renamed: processes may share a
// directory. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/packed_weight.h"

namespace firesteel {

class WeightCache {
 public:
  // Makes `directory` where there is none; kInvalidArgument when that fails. `checkpoint`: where
  // the tensors come from; models whose tensors share names can share the directory.
  static Result<WeightCache> Open(const std::string& directory, const std::string& checkpoint);

  // PackWeight(exec, parts, format), from a file where one holds exactly that. A file that cannot
  // be written costs a line in the log.
  Result<PackedWeight> Pack(Exec& exec, std::span<const WeightSource> parts, WeightFormat format);

  int64_t num_read() const { return num_read_; }
  int64_t num_made() const { return num_made_; }

 private:
  std::string PathOf(std::span<const WeightSource> parts, WeightFormat format) const;

  std::string directory_;
  std::string checkpoint_;
  int64_t num_read_ = 0;
  int64_t num_made_ = 0;
};

}  // namespace firesteel
