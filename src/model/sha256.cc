#include "model/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace firesteel {

Sha256 Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  FS_CHECK(done == 1, "SHA-256 is not available");
  return hash;
}

std::string Hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace firesteel
