// Speed of the kernels that a step spends its time in, with libraries beside them and the machine's
// ceilings measured in between.
//
//   kernels_bench [--op matmul] [--dtype bf16,int8] [--rows 1,8] [--threads 1] [--context 4096]
//                 [--peers no] [--rounds 7] [--minutes 4] [--output out/bench]
//
// Prints tables and writes kernels.json and kernels.md into the output folder.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "kernel_bench/kernel_cases.h"
#include "kernel_bench/kernel_report.h"

namespace firesteel {
namespace {

struct Options {
  KernelChoice choice;
  std::string op;  // empty: all
  int rounds = 7;
  double minutes = 4;  // for matrices, and again for attention, after which no round begins
  std::string output = "out/bench";
};

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

template <typename T>
std::vector<T> Numbers(const std::string& list) {
  std::vector<T> numbers;
  for (const std::string& item : Split(list)) {
    numbers.push_back(static_cast<T>(std::atoll(item.c_str())));
  }
  return numbers;
}

Status Parse(std::span<char*> arguments, Options* options) {
  if (arguments.size() % 2 != 0) return InvalidArgument("expected pairs of --flag value");
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string_view flag = arguments[i];
    const std::string value = arguments[i + 1];
    if (flag == "--op") {
      options->op = value;
    } else if (flag == "--dtype") {
      options->choice.weight_dtypes = Split(value);
    } else if (flag == "--rows") {
      options->choice.rows = Numbers<int64_t>(value);
    } else if (flag == "--threads") {
      options->choice.threads = Numbers<int>(value);
    } else if (flag == "--context") {
      options->choice.contexts = Numbers<int64_t>(value);
    } else if (flag == "--peers") {
      options->choice.peers = value != "no";
    } else if (flag == "--rounds") {
      options->rounds = std::atoi(value.c_str());
    } else if (flag == "--minutes") {
      options->minutes = std::atof(value.c_str());
    } else if (flag == "--output") {
      options->output = value;
    } else {
      return InvalidArgument(fmt::format("unknown flag {}", flag));
    }
  }
  return {};
}

// Each kind of cases with ceilings of its own minutes, and no more memory than it needs.
template <typename Cases>
std::vector<BenchCase> RunCases(Execs& execs, const Options& options) {
  std::vector<BenchCase> list;
  Cases cases(execs, options.choice);
  CeilingCases ceilings;
  cases.AddTo(&list);
  ceilings.AddTo(execs, options.choice.threads, &list);
  RunInterleaved(list, options.rounds, options.minutes);
  for (BenchCase& c : list) c.call = nullptr;
  return list;
}

Status Run(std::span<char*> arguments) {
  Options options;
  FS_TRY(Parse(arguments, &options));
  Execs execs(options.choice.threads);
  Json records = Json::array();
  std::string tables;
  const auto report = [&](const std::vector<BenchCase>& cases) {
    for (Json& record : KernelRecords(cases)) records.push_back(std::move(record));
    tables += KernelTables(cases);
  };
  if (options.op != "attention") report(RunCases<MatMulCases>(execs, options));
  if (options.op != "matmul") report(RunCases<AttentionCases>(execs, options));
  fmt::print("{}", tables);
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  if (error) return InvalidArgument(fmt::format("{}: {}", options.output, error.message()));
  FS_TRY(WriteFileAtomically(options.output + "/kernels.md", tables));
  return WriteFileAtomically(options.output + "/kernels.json", DumpJson(records, 1) + "\n");
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  const firesteel::Status status = firesteel::Run(std::span(argv, size_t(argc)).subspan(1));
  if (status.ok()) return 0;
  fmt::print(stderr, "kernels_bench: {}\n", status.message());
  return 1;
}
