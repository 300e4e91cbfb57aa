#include "bench/grid_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/mapped_file.h"
#include "bench/metrics_sampler.h"
#include "bench/prometheus_text.h"
#include "bench/scripted_server.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GridServerTest, ARunningServerIsAskedForItsHealthAndVersion) {
  ScriptedServer scripted([](const std::string& target, const std::string&) -> ScriptedAnswer {
    if (target == "GET /ready") return {.pieces = {"ok"}};
    if (target == "GET /server_info") return {.pieces = {R"({"version": "0.5.14", "tp_size": 8})"}};
    return {.status = 404};
  });
  const GridConfiguration configuration = {.name = "sglang",
                                           .url = scripted.base_url(),
                                           .health = "/ready",
                                           .spec_method = "eagle",
                                           .spec_tokens = 3};
  Result<GridServer> server = GridServer::Start({}, configuration, "", "", nullptr);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_EQ(server->banner().url, scripted.base_url());
  EXPECT_EQ(server->banner().spec_method, "eagle");
  EXPECT_EQ(server->banner().spec_tokens, 3);
  EXPECT_EQ(server->description()["server_info"]["tp_size"], 8);
  EXPECT_TRUE(server->Stop().ok());  // not ours to end
}

TEST(GridServerTest, AServerThatIsNotThereIsNamed) {
  GridConfig config;
  config.start_timeout_s = 0;
  const GridConfiguration configuration = {.name = "gone", .url = "http://127.0.0.1:1"};
  const auto server = GridServer::Start(config, configuration, "", "", nullptr);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(),
              HasSubstr("the server of gone was not ready after 0 s at http://127.0.0.1:1/health"));
}

TEST(GridServerTest, ACommandGetsAFreePortAndIsEnded) {
  const std::string stem =
      (std::filesystem::temp_directory_path() / ("grid_server_" + std::to_string(getpid())))
          .string();
  const GridConfiguration configuration = {
      .name = "other",
      .command = {"/bin/sh", "-c", "echo port {port} key $2 >&2; exit 4", "x", "--api-key", "k"},
      .url = "http://127.0.0.1:{port}"};
  const auto server = GridServer::Start({}, configuration, "", stem, nullptr);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(),
              HasSubstr("the server of other ended with exit code 4 while starting: port "));
  EXPECT_THAT(server.status().message(), Not(HasSubstr("{port}")));
  std::filesystem::remove(stem + ".stdout");
  std::filesystem::remove(stem + ".stderr");
}

TEST(GridServerTest, SecretsAreNotKept) {
  EXPECT_THAT(WithoutSecrets({"serve", "--api-key", "abc", "--hf-token=x", "--port", "1"}),
              ElementsAre("serve", "--api-key", "***", "--hf-token=***", "--port", "1"));
}

TEST(MetricsSamplerTest, SumsFamiliesOverLabels) {
  const auto sums =
      PrometheusSums("# HELP a b\na{x=\"1\"} 2\na{x=\"} 9\"} 3\nb 1e3\nbroken\nc{ 4\nd x\n");
  EXPECT_EQ(sums.size(), 2u);
  EXPECT_DOUBLE_EQ(sums.at("a"), 5);
  EXPECT_DOUBLE_EQ(sums.at("b"), 1000);
}

TEST(MetricsSamplerTest, GaugesAreSeenAndCountersSubtracted) {
  std::atomic<int> scrapes = 0;
  ScriptedServer server([&](const std::string&, const std::string&) -> ScriptedAnswer {
    const int n = ++scrapes;
    return {.pieces = {"vllm:num_requests_waiting " + std::to_string(n % 2 == 0 ? 6 : 2) +
                       "\nvllm:num_preemptions_total " + std::to_string(10 * n) +
                       "\nvllm:gpu_cache_usage_perc 0.5\n"}};
  });
  MetricsSampler sampler(server.base_url(), "", 5);
  while (scrapes < 5) usleep(1000);
  const Json json = sampler.Finish();
  EXPECT_GE(json["samples"], 6);
  EXPECT_EQ(json["waiting"]["max"], 6);
  EXPECT_GT(json["waiting"]["mean"], 2);
  EXPECT_LT(json["waiting"]["mean"], 6);
  EXPECT_EQ(json["kv_cache_usage"]["mean"], 0.5);
  EXPECT_EQ(json["preemptions"], 10 * (json["samples"].get<int>() - 1));
  EXPECT_FALSE(json.contains("running"));
}

TEST(MetricsSamplerTest, AServerWithoutMetricsHasNone) {
  ScriptedServer server(
      [](const std::string&, const std::string&) -> ScriptedAnswer { return {.status = 404}; });
  EXPECT_TRUE(MetricsSampler(server.base_url(), "", 5).Finish().is_null());
}

}  // namespace
}  // namespace firesteel
