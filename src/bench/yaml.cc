#include "bench/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <exception>
#include <vector>

#include "base/mapped_file.h"

namespace firesteel {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxNodes = 100'000;  // aliases can blow a small file up without end

class Converter {
 public:
  explicit Converter(const std::string& where) : where_(where) {}

  Result<Json> Convert(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth)
      return Error(node, fmt::format("is nested deeper than {} levels", kMaxDepth));
    if (++nodes_ > kMaxNodes)
      return Error(node, fmt::format("holds more than {} values", kMaxNodes));
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return Scalar(node);
      case YAML::NodeType::Sequence:
        return Sequence(node, depth);
      case YAML::NodeType::Map:
        return Map(node, depth);
      default:
        return Json();
    }
  }

 private:
  Status Error(const YAML::Node& node, const std::string& complaint) const {
    return InvalidArgument(fmt::format("{}: line {}: {}", where_, node.Mark().line + 1, complaint));
  }

  Result<Json> Sequence(const YAML::Node& node, int depth) {
    Json list = Json::array();
    for (const YAML::Node& element : node) {
      FS_ASSIGN(Json value, Convert(element, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }

  Result<Json> Map(const YAML::Node& node, int depth) {
    Json object = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return Error(entry.first, "a key is not a scalar");
      const std::string key = entry.first.Scalar();
      if (object.contains(key))
        return Error(entry.first, fmt::format("key {} is there twice", key));
      FS_ASSIGN(Json value, Convert(entry.second, depth + 1));
      object[key] = std::move(value);
    }
    return object;
  }

  static Json Scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;  // quoted
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
      return Json();
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    const char* const end = text.data() + text.size();
    int64_t integer = 0;
    if (const auto r = std::from_chars(text.data(), end, integer);
        r.ec == std::errc() && r.ptr == end)
      return integer;
    const char first = text.front();
    const bool numeric = (first >= '0' && first <= '9') || first == '-' || first == '.';
    double number = 0;
    if (const auto r = std::from_chars(text.data(), end, number);
        numeric && r.ec == std::errc() && r.ptr == end) {
      return number;
    }
    return text;
  }

  const std::string& where_;
  size_t nodes_ = 0;
};

}  // namespace

Result<Json> ParseYaml(const std::string& text, const std::string& where) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty()) return Json();
    if (documents.size() > 1) {
      return InvalidArgument(
          fmt::format("{}: holds {} documents, expected one", where, documents.size()));
    }
    return Converter(where).Convert(documents.front(), 0);
  } catch (const YAML::Exception& e) {
    return InvalidArgument(fmt::format("{}: line {}: {}", where, e.mark.line + 1, e.msg));
  } catch (const std::exception& e) {
    return InvalidArgument(fmt::format("{}: is not valid YAML: {}", where, e.what()));
  }
}

Result<Json> ReadYaml(const std::string& path) {
  FS_ASSIGN(const std::string text, ReadFile(path, size_t{1} << 20));
  return ParseYaml(text, path);
}

}  // namespace firesteel
