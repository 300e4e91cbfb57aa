// SHA-256, through OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace firesteel {

using Sha256 = std::array<uint8_t, 32>;

// Thread-safe.
Sha256 Sha256Of(std::span<const std::byte> bytes);
std::string Hex(std::span<const uint8_t> bytes);

}  // namespace firesteel
