// Values of the template language, with Python's rules for truth, equality, order and printing.
//
// A value is immutable and cheap to copy, save for namespaces, which a template may write to. Depth
// is limited when values are built, so that walking one by recursion is safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel::jinja {

class Value;
struct MacroStatement;

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
};

// Keeps the order of insertion. Keys are strings.
class Dict {
 public:
  const Value* Find(const std::string& key) const;  // nullptr when there is none
  void Set(std::string key, Value value);
  const std::vector<std::pair<std::string, Value>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, Value>> items_;
  std::unordered_map<std::string, size_t> index_;
};

using Namespace = std::map<std::string, Value>;

struct Undefined {
  std::shared_ptr<const std::string> name;  // what was looked for; may be null
};
struct None {};
struct Function {
  std::shared_ptr<const std::string> name;
};
struct Macro {
  const MacroStatement* statement;
};
struct Method;  // a string's or a dict's, with its receiver

class Value {
 public:
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using NamespacePtr = std::shared_ptr<Namespace>;
  using StringPtr = std::shared_ptr<const std::string>;
  using MethodPtr = std::shared_ptr<const Method>;

  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}  // NOLINT: implicit, here and below
  Value(bool b) : data_(b) {}     // NOLINT
  Value(int64_t i) : data_(i) {}  // NOLINT
  Value(double d) : data_(d) {}   // NOLINT
  Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}  // NOLINT
  Value(const char*) = delete;                    // would become a bool
  Value(Function f) : data_(std::move(f)) {}      // NOLINT
  Value(Macro m) : data_(m) {}                    // NOLINT
  Value(MethodPtr m) : data_(std::move(m)) {}     // NOLINT
  Value(NamespacePtr n) : data_(std::move(n)) {}  // NOLINT
  static Value MakeUndefined(std::string name);
  // kInvalidArgument past kMaxDepth or kMaxWeight, and for a namespace inside a container: it could
  // hold itself.
  static Result<Value> MakeList(std::vector<Value> items, bool is_tuple = false);
  static Result<Value> MakeDict(Dict dict);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  const std::string* AsString() const;  // nullptr for other kinds, here and below
  const List* AsList() const;
  const Dict* AsDict() const;
  Namespace* AsNamespace() const;
  const Method* AsMethod() const;
  bool IsUndefined() const { return As<Undefined>() != nullptr; }
  bool IsNone() const { return As<None>() != nullptr; }
  bool IsNumber() const { return As<bool>() || As<int64_t>() || As<double>(); }
  bool IsCallable() const { return As<Function>() || As<Macro>() || As<MethodPtr>(); }
  // bool and int64 as an integer, anything else nullopt.
  std::optional<int64_t> AsInteger() const;
  double ToDouble() const;  // REQUIRES: IsNumber()

  bool Truth() const;
  const char* TypeName() const;  // as Python calls it
  int depth() const { return depth_; }
  // About the bytes of its text when printed in full, which can be far more than it occupies:
  // members may be shared.
  int64_t weight() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, StringPtr, ListPtr, DictPtr, NamespacePtr,
               Function, Macro, MethodPtr>
      data_;
  int depth_ = 0;
  int64_t weight_ = 8;  // of a list or dict
};

struct Method {
  Value receiver;
  std::string name;
};

constexpr int kMaxDepth = 300;
constexpr int64_t kMaxWeight = int64_t{64} << 20;  // of a list or dict
constexpr size_t kMaxText = size_t{16}
                            << 20;  // of a string that a template makes, and of the whole output

bool Equals(const Value& a, const Value& b);
// Negative, zero or positive; kInvalidArgument when Python would not order them.
Result<int> Compare(const Value& a, const Value& b);

// kInvalidArgument past kMaxDepth.
Result<Value> FromJson(const Json& json, int depth = 0);

std::string ToText(const Value& value);  // str()
std::string Repr(const Value& value);    // repr()
std::string FloatRepr(double d);

struct JsonStyle {
  int indent = -1;  // negative: one line
  bool sort_keys = false;
  bool ensure_ascii = false;
};
// json.dumps. kInvalidArgument for what JSON cannot hold.
Status AppendJson(const Value& value, const JsonStyle& style, std::string* out, int level = 0);

// Code points, in which Python counts and cuts strings.
std::u32string Decode(std::string_view text);
std::string Encode(std::u32string_view text);

}  // namespace firesteel::jinja
