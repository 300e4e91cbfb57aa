// One value of a parsed JSON file and where it stands, so that every complaint names file and
// field. Views the parser's buffers and dies with them.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

class DomNode {
 public:
  // `where`: "models/demo/tokenizer.json: model.vocab"; ends in ": " for the file's top value.
  DomNode(simdjson::dom::element element, std::string where)
      : element_(element), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  simdjson::dom::element element() const { return element_; }

  // Members of an object. Null counts as absent. Get gives kDataCorrupt when there is none.
  Result<std::optional<DomNode>> Find(std::string_view key) const;
  Result<DomNode> Get(std::string_view key) const;
  // With a default for an absent member.
  Result<bool> GetBool(std::string_view key, bool otherwise) const;
  Result<std::string> GetString(std::string_view key, std::string_view otherwise) const;

  // kDataCorrupt "<where> is <found>, expected <type>".
  Result<std::string> String() const;
  Result<int64_t> Int(int64_t lo, int64_t hi) const;
  Result<bool> Bool() const;
  Result<std::vector<DomNode>> Elements() const;
  Result<simdjson::dom::object> Object() const;

  Status Corrupt(std::string_view complaint) const;  // "<where> <complaint>"
  Status Unknown(std::string_view complaint) const;  // the same as kUnsupported

 private:
  Status WrongType(std::string_view expected) const;
  std::string MemberPath(std::string_view key) const;

  simdjson::dom::element element_;
  std::string where_;
};

}  // namespace firesteel
