#include "kernel_bench/kernel_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "measure/integer_peak.h"

namespace firesteel {
namespace {

bool IsCeiling(const BenchCase& c) { return c.op == "read" || c.op == "fma" || c.op == "int8"; }
bool IsOurs(const BenchCase& c) { return !IsCeiling(c) && c.peer.empty(); }

const BenchCase& Ceiling(const std::vector<BenchCase>& cases, const char* op, int threads) {
  const auto it = std::find_if(cases.begin(), cases.end(), [&](const BenchCase& c) {
    return IsCeiling(c) && c.op == op && c.threads == threads;
  });
  FS_CHECK(it != cases.end());
  return *it;
}

double PerSecond(double count, const BenchCase& c) { return count / Median(c.ms) * 1e3; }

struct Ceilings {
  double bytes_per_s;
  double macs_per_s;
};

bool IsInteger(const BenchCase& c) {
  return c.op == "matmul" && (c.weight_dtype == "int8" || c.weight_dtype == "int4");
}

Ceilings CeilingsOf(const std::vector<BenchCase>& cases, const BenchCase& c) {
  const BenchCase& read = Ceiling(cases, "read", c.threads);
  const BenchCase& compute = Ceiling(cases, IsInteger(c) ? "int8" : "fma", c.threads);
  return {PerSecond(read.bytes, read), PerSecond(compute.macs, compute)};
}

// The larger of the times that bytes and multiply-adds take at the ceilings.
double BoundMs(const std::vector<BenchCase>& cases, const BenchCase& c) {
  const Ceilings ceilings = CeilingsOf(cases, c);
  return 1e3 * std::max(c.bytes / ceilings.bytes_per_s, c.macs / ceilings.macs_per_s);
}

std::vector<const BenchCase*> PeersOf(const std::vector<BenchCase>& cases, const BenchCase& ours) {
  std::vector<const BenchCase*> peers;
  for (const BenchCase& c : cases) {
    if (c.peer.empty() || c.op != ours.op || c.rows != ours.rows || c.threads != ours.threads) {
      continue;
    }
    const bool integers = IsInteger(c) && IsInteger(ours);
    if (integers || c.weight_dtype == ours.weight_dtype) peers.push_back(&c);
  }
  return peers;
}

Json Record(const std::vector<BenchCase>& cases, const BenchCase& c, const BenchCase* peer) {
  const Ceilings ceilings = CeilingsOf(cases, c);
  Json record = {{"op", c.op},
                 {"weight_dtype", c.weight_dtype},
                 {"rows", c.rows},
                 {"n", c.n},
                 {"k", c.k},
                 {"threads", c.threads},
                 {"median_ms", Median(c.ms)},
                 {"spread", Spread(c.ms)},
                 {"bytes_per_s", PerSecond(c.bytes, c)},
                 {"ceiling_bytes_per_s", ceilings.bytes_per_s},
                 {"macs_per_s", PerSecond(c.macs, c)},
                 {"ceiling_macs_per_s", ceilings.macs_per_s},
                 {"peer", nullptr},
                 {"peer_median_ms", nullptr}};
  if (peer != nullptr) {
    record["peer"] = peer->peer;
    record["peer_median_ms"] = Median(peer->ms);
  }
  return record;
}

double OneRowMs(const std::vector<BenchCase>& cases, const BenchCase& of) {
  for (const BenchCase& c : cases) {
    if (IsOurs(c) && c.op == of.op && c.weight_dtype == of.weight_dtype && c.rows == 1 &&
        c.n == of.n && c.threads == of.threads) {
      return Median(c.ms);
    }
  }
  return 0;
}

std::string Row(const std::vector<BenchCase>& cases, const BenchCase& c) {
  const double ms = Median(c.ms), one = OneRowMs(cases, c);
  std::string peers;
  for (const BenchCase* peer : PeersOf(cases, c)) {
    peers += fmt::format("{}{} {:.3f}", peers.empty() ? "" : ", ", peer->peer, Median(peer->ms));
  }
  const std::string size =
      c.op == "attention" ? fmt::format("{} | {}", c.n, c.rows) : fmt::format("{}", c.rows);
  return fmt::format("| {} | {} | {:.3f} | {:.0f} % | {} | {:.1f} | {:.0f} | {:.0f} % | {} |\n",
                     c.weight_dtype, size, ms, 100 * Spread(c.ms),
                     one > 0 ? fmt::format("{:.2f}", ms / one) : "", PerSecond(c.bytes, c) / 1e9,
                     PerSecond(c.macs, c) / 1e9, 100 * BoundMs(cases, c) / ms, peers);
}

std::string CeilingTable(const std::vector<BenchCase>& cases, const std::set<int>& threads) {
  std::string table = "| threads | read GB/s | float32 FMA, GMAC/s | integer, GMAC/s (" +
                      std::string(IntegerInstruction()) + ") |\n| --- | --- | --- | --- |\n";
  for (const int t : threads) {
    const BenchCase& read = Ceiling(cases, "read", t);
    const auto macs = [&](const char* op) {
      const BenchCase& c = Ceiling(cases, op, t);
      return PerSecond(c.macs, c) / 1e9;
    };
    table += fmt::format("| {} | {:.1f} | {:.0f} | {:.0f} |\n", t,
                         PerSecond(read.bytes, read) / 1e9, macs("fma"), macs("int8"));
  }
  return table + "\n";
}

std::string OpTable(const std::vector<BenchCase>& cases, const std::string& op, int threads) {
  std::vector<const BenchCase*> rows;
  for (const BenchCase& c : cases) {
    if (IsOurs(c) && c.op == op && c.threads == threads) rows.push_back(&c);
  }
  if (rows.empty()) return "";
  // By format, in the order of their first cases.
  std::vector<std::string> order;
  for (const BenchCase* c : rows) {
    if (std::find(order.begin(), order.end(), c->weight_dtype) == order.end()) {
      order.push_back(c->weight_dtype);
    }
  }
  const auto place = [&](const BenchCase* c) {
    return std::find(order.begin(), order.end(), c->weight_dtype) - order.begin();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const BenchCase* a, const BenchCase* b) { return place(a) < place(b); });
  const bool attention = op == "attention";
  std::string table = fmt::format(
      "{}, {}\n\n| {} | {}rows | ms | spread | T(M)/T(1) | GB/s | GMAC/s | of the bound | "
      "libraries, ms |\n| --- | {}--- | --- | --- | --- | --- | --- | --- | --- |\n",
      attention ? "Attention, 32 heads over 8 KV heads of 128"
                : fmt::format("Matrix [{}, {}]", rows[0]->n, rows[0]->k),
      threads == 1 ? "one thread" : fmt::format("{} threads", threads),
      attention ? "cache" : "weights", attention ? "context | " : "", attention ? "--- | " : "");
  for (const BenchCase* c : rows) table += Row(cases, *c);
  return table + "\n";
}

}  // namespace

Json KernelRecords(const std::vector<BenchCase>& cases) {
  Json records = Json::array();
  for (const BenchCase& c : cases) {
    if (!IsOurs(c)) continue;
    const std::vector<const BenchCase*> peers = PeersOf(cases, c);
    if (peers.empty()) records.push_back(Record(cases, c, nullptr));
    for (const BenchCase* peer : peers) records.push_back(Record(cases, c, peer));
  }
  return records;
}

std::string KernelTables(const std::vector<BenchCase>& cases) {
  std::set<int> threads;
  for (const BenchCase& c : cases) threads.insert(c.threads);
  std::string text = CeilingTable(cases, threads);
  for (const char* op : {"matmul", "attention"}) {
    for (const int t : threads) text += OpTable(cases, op, t);
  }
  return text;
}

}  // namespace firesteel
