#include "text/tokenizer_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace firesteel {
namespace {

Result<std::string> TypeOf(const DomNode& node) {
  FS_ASSIGN(const DomNode type, node.Get("type"));
  return type.String();
}

Status ReadNormalizer(const DomNode& node, int depth, TokenizerFile* file) {
  FS_ASSIGN(const std::string type, TypeOf(node));
  if (type == "NFC") {
    file->nfc = true;
    return {};
  }
  if (type != "Sequence" || depth > 0) {
    return node.Unknown(fmt::format("has type \"{}\", expected \"NFC\" or a sequence of it", type));
  }
  FS_ASSIGN(const DomNode list, node.Get("normalizers"));
  FS_ASSIGN(const std::vector<DomNode> parts, list.Elements());
  for (const DomNode& part : parts) FS_TRY(ReadNormalizer(part, depth + 1, file));
  return {};
}

Result<SplitRule> ReadSplit(const DomNode& node) {
  SplitRule rule;
  FS_ASSIGN(const DomNode pattern, node.Get("pattern"));
  FS_ASSIGN(const std::optional<DomNode> regex, pattern.Find("Regex"));
  FS_ASSIGN(const std::optional<DomNode> literal, pattern.Find("String"));
  if (regex.has_value() == literal.has_value()) {
    return pattern.Corrupt("holds no \"Regex\" or \"String\", expected one of them");
  }
  rule.literal = literal.has_value();
  rule.where = regex ? regex->where() : literal->where();
  FS_ASSIGN(rule.pattern, regex ? regex->String() : literal->String());
  FS_ASSIGN(const std::string behavior, node.GetString("behavior", ""));
  FS_ASSIGN(const bool invert, node.GetBool("invert", false));
  if (behavior == "Removed" && invert) {
    rule.only_matches = true;
  } else if (behavior != "Isolated") {
    return node.Unknown(fmt::format("has behavior \"{}\"{}, expected \"Isolated\"", behavior,
                                    invert ? " inverted" : ""));
  }
  return rule;
}

Status ReadPreTokenizer(const DomNode& node, int depth, bool is_last, TokenizerFile* file) {
  PreTokenizerSpec& spec = file->pre_tokenizer;
  FS_ASSIGN(const std::string type, TypeOf(node));
  if (type == "Split") {
    if (is_last) return node.Unknown("ends in \"Split\", expected \"ByteLevel\" at the end");
    FS_ASSIGN(SplitRule rule, ReadSplit(node));
    spec.splits.push_back(std::move(rule));
    return {};
  }
  if (type == "ByteLevel") {
    if (!is_last) return node.Unknown("is \"ByteLevel\", expected only at the end of the sequence");
    FS_ASSIGN(spec.add_prefix_space, node.GetBool("add_prefix_space", true));
    FS_ASSIGN(spec.gpt2_words, node.GetBool("use_regex", true));
    return {};
  }
  if (type != "Sequence" || depth > 0) {
    return node.Unknown(fmt::format(
        "has type \"{}\", expected \"Split\", \"ByteLevel\" or a sequence of them", type));
  }
  FS_ASSIGN(const DomNode list, node.Get("pretokenizers"));
  FS_ASSIGN(const std::vector<DomNode> parts, list.Elements());
  if (parts.empty()) return list.Unknown("is empty, expected \"ByteLevel\" at the end");
  for (const DomNode& part : parts) {
    FS_TRY(ReadPreTokenizer(part, depth + 1, &part == &parts.back(), file));
  }
  return {};
}

Status CheckDecoder(const DomNode& node, int depth) {
  FS_ASSIGN(const std::string type, TypeOf(node));
  if (type == "ByteLevel") return {};
  if (type != "Sequence" || depth > 0) {
    return node.Unknown(fmt::format("has type \"{}\", expected \"ByteLevel\"", type));
  }
  FS_ASSIGN(const DomNode list, node.Get("decoders"));
  FS_ASSIGN(const std::vector<DomNode> parts, list.Elements());
  if (parts.size() != 1) return list.Unknown("is not one decoder, expected \"ByteLevel\" alone");
  return CheckDecoder(parts[0], depth + 1);
}

bool IsKnownId(const TokenizerFile& file, int64_t id) {
  return std::any_of(file.vocab.begin(), file.vocab.end(),
                     [&](auto& e) { return e.second == id; }) ||
         std::any_of(file.added_tokens.begin(), file.added_tokens.end(),
                     [&](auto& token) { return token.id == id; });
}

Status AppendSpecialToken(const DomNode& node, const DomNode& item, const TokenizerFile& file,
                          std::vector<int32_t>* ids) {
  FS_ASSIGN(const DomNode id_node, item.Get("id"));
  FS_ASSIGN(const std::string name, id_node.String());
  FS_ASSIGN(const DomNode table, node.Get("special_tokens"));
  FS_ASSIGN(const std::optional<DomNode> entry, table.Find(name));
  if (!entry) {
    return id_node.Corrupt(fmt::format("is \"{}\", which special_tokens does not list", name));
  }
  FS_ASSIGN(const DomNode list, entry->Get("ids"));
  FS_ASSIGN(const std::vector<DomNode> values, list.Elements());
  for (const DomNode& value : values) {
    FS_ASSIGN(const int64_t id, value.Int(0, kMaxTokenId));
    if (!IsKnownId(file, id)) return value.Corrupt(fmt::format("is {}, which no token has", id));
    ids->push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status ReadTemplate(const DomNode& node, TokenizerFile* file) {
  FS_ASSIGN(const DomNode single, node.Get("single"));
  FS_ASSIGN(const std::vector<DomNode> items, single.Elements());
  bool after_text = false;
  for (const DomNode& item : items) {
    FS_ASSIGN(const std::optional<DomNode> special, item.Find("SpecialToken"));
    FS_ASSIGN(const std::optional<DomNode> sequence, item.Find("Sequence"));
    if (special) {
      auto* ids = after_text ? &file->suffix_ids : &file->prefix_ids;
      FS_TRY(AppendSpecialToken(node, *special, *file, ids));
    } else if (sequence && !after_text) {
      after_text = true;
    } else {
      return item.Corrupt(
          "is not expected here: one \"Sequence\" with \"SpecialToken\"s around it");
    }
  }
  if (!after_text) return single.Corrupt("holds no \"Sequence\"");
  return {};
}

Status ReadPostProcessor(const DomNode& node, int depth, TokenizerFile* file) {
  FS_ASSIGN(const std::string type, TypeOf(node));
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") {
    if (!file->prefix_ids.empty() || !file->suffix_ids.empty()) {
      return node.Unknown("is a second template, expected one");
    }
    return ReadTemplate(node, file);
  }
  if (type != "Sequence" || depth > 0) {
    return node.Unknown(fmt::format(
        "has type \"{}\", expected \"TemplateProcessing\", \"ByteLevel\" or a sequence of them",
        type));
  }
  FS_ASSIGN(const DomNode list, node.Get("processors"));
  FS_ASSIGN(const std::vector<DomNode> parts, list.Elements());
  for (const DomNode& part : parts) FS_TRY(ReadPostProcessor(part, depth + 1, file));
  return {};
}

}  // namespace

Status ReadPipeline(const DomNode& top, TokenizerFile* file) {
  FS_ASSIGN(const std::optional<DomNode> normalizer, top.Find("normalizer"));
  if (normalizer) FS_TRY(ReadNormalizer(*normalizer, 0, file));
  FS_ASSIGN(const DomNode pre_tokenizer, top.Get("pre_tokenizer"));
  FS_TRY(ReadPreTokenizer(pre_tokenizer, 0, true, file));
  FS_ASSIGN(const DomNode decoder, top.Get("decoder"));
  FS_TRY(CheckDecoder(decoder, 0));
  FS_ASSIGN(const std::optional<DomNode> post_processor, top.Find("post_processor"));
  if (post_processor) FS_TRY(ReadPostProcessor(*post_processor, 0, file));
  return {};
}

}  // namespace firesteel
