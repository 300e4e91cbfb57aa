#include "report/page_text_internal.h"

namespace firesteel {
namespace {

constexpr PageText kEnglish = {
    .kicker = "Firesteel · benchmark report",
    .contents = "Contents",
    .theme = "Light / dark",
    .sort = "Sort by this column",
    .filter = "Filter rows …",
    .run = "run",
    .runs = "Runs behind the figures",
    .runs_note =
        "Every figure of a table links to the run it comes from; hovering over it, or over a point "
        "of a chart, names the run.",
    .data = "Data of this chart",
    .series = "Series",
    .interval = "Interval",
    .thinned = "Shown: {0} of {1} points.",
    .no_charts = "This build carries no charting library: charts are shown as tables.",
    .evidence = "Evidence",
    .alternatives = "Not excluded",
    .confidence = "confidence",
    .confidence_levels = {"low", "medium", "high"},
    .severities = {"note", "warning", "severe"},
    .effect = "Expected",
    .experiment = "Confirm with",
    .basis = "Because of",
    .source_columns = {"Run", "Campaign", "Scenario", "Configuration", "Concurrency", "File"},
    .line = "line {0}",
    .summary = "{0} runs from {1} files",
    .footer =
        "Written by Firesteel. The page holds its data, styles and scripts and loads nothing.",
};

constexpr PageText kChinese = {
    .kicker = "Firesteel · 基准测试报告",
    .contents = "目录",
    .theme = "浅色 / 深色",
    .sort = "按此列排序",
    .filter = "筛选行 …",
    .run = "运行",
    .runs = "数据来源",
    .runs_note = "表中每个数字都链接到其所属的运行；将指针移到数字或图中的点上，即可看到运行编号。",
    .data = "图表数据",
    .series = "系列",
    .interval = "区间",
    .thinned = "显示 {1} 个点中的 {0} 个。",
    .no_charts = "此构建不含图表库：图表以表格形式显示。",
    .evidence = "证据",
    .alternatives = "无法排除",
    .confidence = "置信度",
    .confidence_levels = {"低", "中", "高"},
    .severities = {"提示", "警告", "严重"},
    .effect = "预期效果",
    .experiment = "验证实验",
    .basis = "依据",
    .source_columns = {"运行", "批次", "场景", "配置", "并发", "文件"},
    .line = "第 {0} 行",
    .summary = "{0} 次运行，来自 {1} 个文件",
    .footer = "由 Firesteel 生成。页面自带数据、样式和脚本，不加载任何外部资源。",
};

}  // namespace

const PageText& WordsOf(Language language) {
  return language == Language::kChinese ? kChinese : kEnglish;
}

}  // namespace firesteel
