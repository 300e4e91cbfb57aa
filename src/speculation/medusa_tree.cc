#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "speculation/medusa_internal.h"

namespace firesteel {
namespace {

constexpr char kWhere[] = "speculative config";
constexpr size_t kMaxNodes = 256;
constexpr int64_t kMaxRank = 63;

using Path = std::vector<int64_t>;

// A tree in which the children of a node are its first ranks: how many each path has.
struct Children {
  Path parent;
  int64_t count;
};
const Children kSmall[] = {{{}, 3}, {{0}, 3}, {{1}, 1}, {{0, 0}, 2}, {{0, 0, 0}, 1}};
// The tree that Medusa publishes for Vicuna 7B under this name.
const Children kSim63[] = {{{}, 10},    {{0}, 10},     {{1}, 7},    {{2}, 3},    {{3}, 2},
                           {{4}, 1},    {{5}, 1},      {{6}, 1},    {{7}, 1},    {{8}, 1},
                           {{9}, 1},    {{0, 0}, 10},  {{0, 1}, 3}, {{0, 2}, 2}, {{0, 3}, 1},
                           {{0, 4}, 1}, {{0, 5}, 1},   {{0, 6}, 1}, {{0, 7}, 1}, {{1, 0}, 2},
                           {{2, 0}, 1}, {{0, 0, 0}, 2}};

std::vector<Path> PathsOf(std::span<const Children> table, int32_t num_heads) {
  std::vector<Path> paths;
  for (const Children& node : table) {
    if (node.parent.size() >= static_cast<size_t>(num_heads)) continue;
    for (int64_t rank = 0; rank < node.count; ++rank) {
      paths.push_back(node.parent);
      paths.back().push_back(rank);
    }
  }
  return paths;
}

std::string Shown(const Path& path) { return DumpJson(Json(path)).substr(0, 100); }

Result<std::vector<Path>> ReadPaths(const Json& choices) {
  std::vector<Path> paths;
  if (choices.empty() || choices.size() > kMaxNodes) {
    return InvalidArgument(fmt::format("{}: medusa_choices holds {} paths, expected 1 to {}",
                                       kWhere, choices.size(), kMaxNodes));
  }
  for (const Json& choice : choices) {
    const Json holder = {{"path", choice}};
    FS_ASSIGN(const auto path, GetIntList(holder, "path", "speculative config: medusa_choices"));
    if (!path) {
      return InvalidArgument(
          fmt::format("{}: medusa_choices holds null, expected lists of ranks", kWhere));
    }
    paths.push_back(*path);
  }
  return paths;
}

Result<MedusaTree> TreeOf(const std::vector<Path>& paths, int32_t num_heads) {
  MedusaTree tree;
  std::map<Path, int32_t> index = {{Path(), -1}};
  for (const Path& path : paths) {
    if (path.empty() || path.size() > static_cast<size_t>(num_heads)) {
      return InvalidArgument(
          fmt::format("{}: medusa_choices holds {}, expected 1 to {} ranks, one for each head",
                      kWhere, Shown(path), num_heads));
    }
    if (path.back() < 0 || path.back() > kMaxRank) {
      return InvalidArgument(fmt::format("{}: medusa_choices holds {}, expected ranks from 0 to {}",
                                         kWhere, Shown(path), kMaxRank));
    }
    const auto parent = index.find(Path(path.begin(), path.end() - 1));
    if (parent == index.end()) {
      return InvalidArgument(
          fmt::format("{}: medusa_choices holds {} without its parent {} before it", kWhere,
                      Shown(path), Shown(Path(path.begin(), path.end() - 1))));
    }
    if (!index.emplace(path, static_cast<int32_t>(tree.nodes.size())).second) {
      return InvalidArgument(fmt::format("{}: medusa_choices holds {} twice", kWhere, Shown(path)));
    }
    const auto rank = static_cast<int32_t>(path.back());
    tree.nodes.push_back({parent->second, static_cast<int32_t>(path.size()) - 1, rank});
    tree.depth = std::max(tree.depth, static_cast<int32_t>(path.size()));
    tree.ranks = std::max(tree.ranks, rank + 1);
  }
  return tree;
}

}  // namespace

Result<MedusaTree> ReadMedusaTree(const Json& config, int32_t num_heads) {
  const auto it = config.find("medusa_choices");
  if (it != config.end() && it->is_array()) {
    FS_ASSIGN(const std::vector<Path> paths, ReadPaths(*it));
    return TreeOf(paths, num_heads);
  }
  FS_ASSIGN(const auto named, GetString(config, "medusa_choices", kWhere));
  const std::string name = named.value_or("small");
  if (name == "chain") return MedusaTree();
  if (name == "small") return TreeOf(PathsOf(kSmall, num_heads), num_heads);
  if (name == "mc_sim_7b_63") return TreeOf(PathsOf(kSim63, num_heads), num_heads);
  return InvalidArgument(fmt::format(
      "{}: medusa_choices is {}, expected chain, small, mc_sim_7b_63 or a list of paths of ranks",
      kWhere, DumpJson(name).substr(0, 100)));
}

}  // namespace firesteel
