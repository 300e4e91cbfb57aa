#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/check.h"

namespace firesteel {

std::string NormalizeNfc(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  // ICU counts in 32 bits; a text past that stays as it is rather than ending the process.
  constexpr size_t kMaxBytes = size_t{1} << 30;
  if (text.size() > kMaxBytes || std::all_of(text.begin(), text.end(), is_ascii)) {
    return std::string(text);
  }
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  FS_CHECK(U_SUCCESS(error), "ICU has no NFC data: {}", u_errorName(error));
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
  nfc->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                     nullptr, error);
  FS_CHECK(U_SUCCESS(error), "NFC of {} bytes: {}", text.size(), u_errorName(error));
  return out;
}

bool IsWordCharacter(char32_t c) {
  const auto ch = static_cast<UChar32>(c);
  constexpr uint32_t kMask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(ch, UCHAR_ALPHABETIC) || (U_GET_GC_MASK(ch) & kMask) != 0 ||
         u_hasBinaryProperty(ch, UCHAR_JOIN_CONTROL);
}

bool IsWhiteSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

}  // namespace firesteel
