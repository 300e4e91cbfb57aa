// Typed reads of a request's JSON object. The first wrong field is kept as an error that names
// field, value and expectation; reads after it do nothing, so that a parser is a list of fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/errors.h"

namespace firesteel {

class FieldReader {
 public:
  // `object` must outlive this. `prefix` stands before the names in messages: "stream_options.".
  explicit FieldReader(const Json& object, std::string prefix = "")
      : object_(&object), prefix_(std::move(prefix)) {}

  bool ok() const { return error_.status == 0; }
  const ApiError& error() const { return error_; }

  // Null when the field is absent or null.
  const Json* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }

  // Each leaves `*out` alone when the field is absent or null, and returns whether it was set.
  // Ranges include both ends.
  bool Int(std::string_view name, int64_t lo, int64_t hi, int64_t* out);
  bool Int(std::string_view name, int64_t lo, int64_t hi, int32_t* out);
  bool Double(std::string_view name, double lo, double hi, double* out);
  bool Bool(std::string_view name, bool* out);
  bool String(std::string_view name, std::string* out);
  bool IntList(std::string_view name, int64_t lo, int64_t hi, std::vector<int32_t>* out);
  const Json* Object(std::string_view name);  // null when absent, null or wrong
  const Json* Array(std::string_view name);

  // "<name> is <found>, expected <expected>"; the first call counts.
  void Fail(std::string_view name, const Json& found, std::string_view expected);
  // Any other sentence about `name`.
  void FailWith(std::string_view name, std::string message);

  // The integer in `value` when it is one within the range ("3.0" is), as Int reads it.
  static bool ReadInt(const Json& value, int64_t lo, int64_t hi, int64_t* out);
  // "an integer from 1 to 20", "an integer of at least 1".
  static std::string IntRange(int64_t lo, int64_t hi);

 private:
  const Json* object_;
  std::string prefix_;
  ApiError error_;
};

// The body as a JSON object: 400 for anything else, for more than 1024 members in one object (their
// lookup is linear), and for what ParseJson refuses.
ApiError ParseBody(std::string_view body, Json* object);

}  // namespace firesteel
