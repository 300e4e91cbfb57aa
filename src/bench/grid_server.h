// A server that a grid measures: started and ended by the grid, or one that runs already.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/json.h"
#include "bench/child_process.h"
#include "bench/grid_config.h"
#include "bench/server_banner.h"
#include "firesteel/status.h"

namespace firesteel {

class GridServer {
 public:
  // Returns once the server answers its health check with 200. `binary` is this program, for
  // servers of ours; what the server writes goes to LOG_STEM.stdout and .stderr. Errors name the
  // last line that it wrote; kCancelled once `*stop` (may be null).
  static Result<GridServer> Start(const GridConfig& config, const GridConfiguration& configuration,
                                  const std::string& binary, const std::string& log_stem,
                                  const std::atomic<bool>* stop);

  // Of another server: what the grid file says of it.
  const ServerBanner& banner() const { return banner_; }
  const std::string& api_key() const { return api_key_; }
  bool IsHealthy() const;
  // Command line without secrets, the server's version and what it says about itself.
  const Json& description() const { return description_; }
  // Waits for the end. kInternal when one of ours had to be killed or ended with an error.
  Status Stop();

 private:
  GridServer() = default;
  void Describe(const std::vector<std::string>& argv);

  ServerBanner banner_;
  std::string api_key_;
  std::string health_;
  int64_t stop_timeout_ms_ = 0;
  Json description_ = Json::object();
  std::unique_ptr<ChildProcess> process_;
};

// `argv` with what follows --api-key (and its like) hidden.
std::vector<std::string> WithoutSecrets(std::vector<std::string> argv);

}  // namespace firesteel
