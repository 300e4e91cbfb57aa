#include "text/dom_node.h"

#include <fmt/format.h>

namespace firesteel {
namespace {

using simdjson::dom::element_type;

std::string_view TypeName(element_type type) {
  switch (type) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
      return "an integer";
    case element_type::DOUBLE:
      return "a number with a fraction";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "an unknown kind of value";
}

}  // namespace

Status DomNode::Corrupt(std::string_view complaint) const {
  return DataCorrupt(fmt::format("{} {}", where_, complaint));
}

Status DomNode::Unknown(std::string_view complaint) const {
  return Unsupported(fmt::format("{} {}", where_, complaint));
}

Status DomNode::WrongType(std::string_view expected) const {
  return Corrupt(fmt::format("is {}, expected {}", TypeName(element_.type()), expected));
}

std::string DomNode::MemberPath(std::string_view key) const {
  return where_.ends_with(": ") ? where_ + std::string(key) : fmt::format("{}.{}", where_, key);
}

Result<std::optional<DomNode>> DomNode::Find(std::string_view key) const {
  FS_ASSIGN(const simdjson::dom::object object, Object());
  simdjson::dom::element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) {
    return std::optional<DomNode>();
  }
  return std::optional<DomNode>(DomNode(value, MemberPath(key)));
}

Result<DomNode> DomNode::Get(std::string_view key) const {
  FS_ASSIGN(const std::optional<DomNode> member, Find(key));
  if (!member) return DataCorrupt(fmt::format("{} is missing or null", MemberPath(key)));
  return *member;
}

Result<bool> DomNode::GetBool(std::string_view key, bool otherwise) const {
  FS_ASSIGN(const std::optional<DomNode> member, Find(key));
  return member ? member->Bool() : Result<bool>(otherwise);
}

Result<std::string> DomNode::GetString(std::string_view key, std::string_view otherwise) const {
  FS_ASSIGN(const std::optional<DomNode> member, Find(key));
  return member ? member->String() : Result<std::string>(std::string(otherwise));
}

Result<std::string> DomNode::String() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return WrongType("a string");
  return std::string(value);
}

Result<int64_t> DomNode::Int(int64_t lo, int64_t hi) const {
  int64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS) return WrongType("an integer");
  if (value < lo || value > hi) {
    return Corrupt(fmt::format("is {}, expected {} to {}", value, lo, hi));
  }
  return value;
}

Result<bool> DomNode::Bool() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return WrongType("a boolean");
  return value;
}

Result<std::vector<DomNode>> DomNode::Elements() const {
  simdjson::dom::array array;
  if (element_.get(array) != simdjson::SUCCESS) return WrongType("an array");
  std::vector<DomNode> nodes;
  for (const simdjson::dom::element value : array) {
    nodes.emplace_back(value, fmt::format("{}[{}]", where_, nodes.size()));
  }
  return nodes;
}

Result<simdjson::dom::object> DomNode::Object() const {
  simdjson::dom::object object;
  if (element_.get(object) != simdjson::SUCCESS) return WrongType("an object");
  return object;
}

}  // namespace firesteel
