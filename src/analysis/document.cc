#include "analysis/document.h"

#include <fmt/format.h>

namespace firesteel {
namespace {

template <typename T>
std::vector<const T*> All(const Document& document) {
  std::vector<const T*> all;
  for (const Section& section : document.sections) {
    for (const Block& block : section.blocks) {
      if (const T* one = std::get_if<T>(&block)) all.push_back(one);
    }
  }
  return all;
}

template <typename T>
const T* FindById(const Document& document, const std::string& id) {
  for (const T* one : All<T>(document)) {
    if (one->id == id) return one;
  }
  return nullptr;
}

}  // namespace

std::string CellText(const Cell& cell) {
  if (!cell.value) return cell.text;
  return fmt::format(fmt::runtime(cell.sign ? "{:+.{}f}" : "{:.{}f}"), *cell.value, cell.decimals);
}

const Table* FindTable(const Document& document, const std::string& id) {
  return FindById<Table>(document, id);
}

const Chart* FindChart(const Document& document, const std::string& id) {
  return FindById<Chart>(document, id);
}

std::vector<const Finding*> FindingsOf(const Document& document) { return All<Finding>(document); }

std::vector<const Advice*> AdviceOf(const Document& document) { return All<Advice>(document); }

int32_t ColumnIndex(const Table& table, const std::string& id) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].id == id) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace firesteel
