#include "cli/demo_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace firesteel {

namespace fs = std::filesystem;

Result<std::string> FindBundledModel(const std::string& relative) {
  std::vector<std::string> places;
  if (const char* models = std::getenv("FIRESTEEL_MODELS"); models != nullptr && *models != '\0') {
    places.push_back(models);
  } else {
    std::error_code error;
    const fs::path binary = fs::read_symlink("/proc/self/exe", error);
    // build/<preset>/firesteel
    if (!error)
      places.push_back((binary.parent_path() / "../../models").lexically_normal().string());
    places.push_back("/usr/share/firesteel/models");
    places.push_back("models");
  }
  for (const std::string& place : places) {
    std::error_code error;
    const fs::path path = fs::path(place) / relative;
    if (fs::exists(path / "config.json", error)) return path.string();
  }
  return NotFound(fmt::format("no MODEL was named, and the bundled {} is not below {}", relative,
                              fmt::join(places, ", ")));
}

Status UseDemoModel(bool spec_given, EngineOptions* options) {
  if (!options->model.empty()) return {};
  FS_ASSIGN(options->model, FindBundledModel("demo/target"));
  SpeculationOptions& spec = options->speculation;
  if (!spec_given) spec.method = "dspark";
  if (!spec.model.empty()) return {};
  if (spec.method == "auto") spec.method = "dspark";
  // Those of the bundled drafters; the other methods need none.
  for (const char* method : {"dspark", "dflash", "eagle3", "medusa"}) {
    if (spec.method != method) continue;
    FS_ASSIGN(spec.model, FindBundledModel(fmt::format("demo/{}", method)));
  }
  return {};
}

}  // namespace firesteel
