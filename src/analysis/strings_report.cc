// Titles, sections, charts, banners and notes.
#include "analysis/strings_internal.h"

namespace firesteel {
namespace {

constexpr StringRow kRows[] = {
    {"report.title", "Benchmark report", "基准测试报告"},
    {"title.of_campaign", "{0}: {1}", "{0}:{1}"},
    {"all_results", "all results", "全部结果"},
    {"quoted", "quoted, not measured", "引用,非实测"},
    {"role.baseline", "baseline", "基线"},
    {"work.assumed",
     "number of prompts and seed assumed from other runs at this concurrency, lengths drawn again",
     "提示词数量与种子取自同并发的其他运行(假定),长度重新生成"},
    {"no_baseline", "none measured: the cost of drafting cannot be concluded",
     "未测量:无法判断草稿的代价"},

    {"section.summary", "Summary", "摘要"},
    {"section.environment", "Environment and configurations", "环境与配置"},
    {"section.workload", "Workload", "工作负载"},
    {"section.core", "Results", "结果"},
    {"section.winners", "Comparison", "对比"},
    {"section.speculation", "Speculation", "投机解码"},
    {"section.pivots", "Configuration by concurrency", "配置 × 并发"},
    {"section.anomalies", "Anomalies", "异常分析"},
    {"section.advice", "Recommendations and next experiments", "建议与后续实验"},
    {"section.claims", "Statements checked", "陈述核对"},
    {"section.limits", "Limits and appendix", "局限与附录"},

    {"summary.scope", "{0} runs in {1} cells, {2} campaigns.",
     "{0} 次运行,{1} 个单元,{2} 批结果。"},
    {"summary.wins", "{0}{1} points compared; won: {2}; ties: {3}; not ranked: {4}.",
     "{0}对比 {1} 点;胜出:{2};持平:{3};未排名:{4}。"},
    {"banner.void", "{0} runs do not count; see VOID_RUNS.", "{0} 次运行无效;见 VOID_RUNS。"},
    {"banner.unequal",
     "Work differs between configurations; see UNEQUAL_WORKLOAD and NOT_RANKED before comparing.",
     "各配置的工作量不同;比较之前请看 UNEQUAL_WORKLOAD 与 NOT_RANKED。"},
    {"banner.unverified", "Some output was not counted by anybody; token rates are unverified.",
     "部分输出没有被计数;token 速率未经验证。"},
    {"banner.single", "Single runs: noise is assumed (throughput 3 %, means 10 %, P99 25 %).",
     "存在单次运行:噪声为假定值(吞吐 3 %,均值 10 %,P99 25 %)。"},

    {"label.alternatives", "not excluded", "未能排除"},
    {"label.effect", "expected effect", "预期效果"},
    {"label.experiment", "experiment", "实验"},
    {"label.findings", "findings", "依据"},
    {"label.runs", "runs", "运行"},
    {"severity.severe", "severe", "严重"},
    {"severity.warning", "warning", "警告"},
    {"severity.note", "note", "提示"},
    {"confidence.high", "high confidence", "高置信"},
    {"confidence.medium", "medium confidence", "中置信"},
    {"confidence.low", "low confidence", "低置信"},
    {"grade.note", "note", "提示"},
    {"grade.warn", "warning", "警告"},
    {"grade.severe", "severe", "严重"},
    {"grade.jitter", "jitter", "抖动"},
    {"grade.heavy", "heavy", "重度"},
    {"grade.moderate", "moderate", "中度"},
    {"grade.cliff", "cliff", "断崖"},
    {"grade.dip", "dip", "凹陷"},
    {"verdict.winner", "significant", "显著"},
    {"verdict.tie", "within the noise", "噪声之内"},
    {"verdict.unequal", "not ranked: unequal work", "不排名:工作量不同"},
    {"verdict.alone", "alone", "无对手"},
    {"pays.yes", "pays", "合算"},
    {"pays.no", "does not pay", "不合算"},
    {"claim.holds", "holds", "成立"},
    {"claim.fails", "does not hold", "不成立"},
    {"replicate.equal_work", "equal work under two names", "同一工作的两个名称"},
    {"replicate.campaigns", "one cell in two campaigns", "两批结果中的同一单元"},

    {"latency.ttft", "TTFT", "TTFT"},
    {"latency.tpot", "TPOT", "TPOT"},
    {"latency.e2e", "end-to-end latency", "端到端延迟"},
    {"axis.concurrency", "concurrency", "并发"},
    {"axis.tps_user", "tok/s/user (1000 / mean TPOT)", "tok/s/用户(1000 / 平均 TPOT)"},
    {"axis.output", "output tok/s", "输出 tok/s"},
    {"axis.output_per_gpu", "output tok/s/GPU", "输出 tok/s/GPU"},
    {"axis.position", "position in the draft", "草稿中的位置"},
    {"axis.acceptance", "accepted (%)", "接受率(%)"},
    {"axis.drafted", "tokens per step", "每步 token 数"},
    {"axis.share", "share of requests", "请求占比"},
    {"chart.throughput", "{0}{1}: {2} against concurrency", "{0}{1}:{2} 随并发变化"},
    {"chart.ideal", "ideal: proportional", "理想:正比"},
    {"chart.pareto", "{0}{1}: throughput against speed per user", "{0}{1}:吞吐与单用户速度"},
    {"chart.pareto.note", "Speed per user is 1000 over the mean TPOT.",
     "单用户速度为 1000 除以平均 TPOT。"},
    {"chart.latency", "{0}{1}: {2} against concurrency", "{0}{1}:{2} 随并发变化"},
    {"chart.latency.note",
     "Line: median where every point has one, else the mean; band up to P99, else P95.",
     "线:各点均有中位数时为中位数,否则为均值;带宽到 P99,否则 P95。"},
    {"chart.speedup", "{0}output throughput over {1}", "{0}输出吞吐与 {1} 之比"},
    {"chart.configurations", "{0}configurations compared", "{0}配置对比"},
    {"chart.positions", "{0}acceptance per position", "{0}各位置接受率"},
    {"chart.conditional", "conditional", "条件"},
    {"chart.budget", "{0}{1}: drafted and accepted tokens per step against load",
     "{0}{1}:每步草稿与接受 token 数随负载变化"},
    {"chart.ecdf", "{0}{1}: distribution of {2}", "{0}{1}:{2} 的分布"},
    {"mark.knee", "knee of {0}", "{0} 的拐点"},
    {"mark.cliff", "drop of {0}", "{0} 的下降"},

    {"note.winners", "Compared on {0}; no winner within the noise or on unequal work.",
     "按 {0} 比较;噪声之内或工作量不同则不判定。"},
    {"note.weights", "Every cell counts once of {0}: scenarios with more levels weigh more.",
     "{0} 个单元各计一次:档位多的场景权重更大。"},
    {"note.ratios",
     "Ratios are numerator over denominator; above 1 the numerator is larger. The geometric mean "
     "is "
     "the headline; the arithmetic one is kept for comparison with other reports.",
     "比值为分子除以分母;大于 1 表示分子更大。以几何平均为准;算术平均用于与其他报告对照。"},
    {"note.speedup",
     "Output throughput is the fair measure. Request ratios in parentheses compare unequal work; "
     "their interval is what two printed decimals allow. Latency ratios are baseline over "
     "configuration.",
     "输出吞吐是公平的度量。括号中的请求比值比较的是不同的工作;"
     "其区间为两位小数所允许的范围。延迟比值"
     "为基线除以配置。"},
    {"note.acceptance",
     "The rate falls with the number of drafted tokens by its definition: compare tokens per step "
     "and step time.",
     "接受率按定义随草稿数下降:请比较每步 token 数与步时间。"},
    {"note.ballast",
     "The target carries ballast: tokens and acceptance are those of the small model, the cost of "
     "a "
     "step is that of a large one. The column \"draft cost\" is a draft pass over a target step.",
     "目标模型带有压舱层:token "
     "与接受率来自小模型,步代价相当于大模型。“草稿代价”列为一次草稿与一次目标步"
     "之比。"},
    {"note.model", "Expected speedup: tokens per step over relative step time, against {0}.",
     "预期加速比:每步 token 数除以相对步时间,基线为 {0}。"},
    {"note.marginal",
     "A longer draft pays only where the gain in tokens exceeds the growth in time.",
     "仅当 token 增益超过时间增长时,更长的草稿才合算。"},
    {"note.regret", "Most lost by one fixed length over all levels: {0}.",
     "全部档位只用一种长度的最大损失:{0}。"},
    {"note.coverage", "Nothing is concluded about levels and figures that are not listed.",
     "未列出的档位与数字不作任何结论。"},
    {"note.checks",
     "In flight: request rate times mean latency (Little's law), must not exceed the concurrency. "
     "Spread of lengths: what P99 over mean would be if every token cost the same.",
     "在途:请求率乘平均延迟(利特尔定律),不应超过并发。长度离散:若每个 token 代价相同,P99 与均值之比"
     "应为多少。"},
    {"note.levels",
     "Elasticity: relative growth over relative growth of the load. 1 is proportional, below 0.3 "
     "saturated. TTFT fall: TTFT at the lower level over the higher one, 1 or less when warm.",
     "弹性:相对增长与负载相对增长之比。1 为正比,低于 0.3 为饱和。TTFT 下降:低档与高档 TTFT "
     "之比,预热后"
     "不大于 1。"},
    {"note.claims", "What authors computed is checked here and used nowhere else.",
     "作者计算的数字只在此核对,不用于其他任何地方。"},
    {"limits.import", "How files were read:", "文件读取规则:"},
    {"limit.measured_only", "Only measured cells are spoken of; nothing is extrapolated.",
     "只陈述测量过的单元,不作外推。"},
    {"limit.noise",
     "Intervals are 95 % from repeats (Welch on logarithms, degrees of freedom of the smaller "
     "side); "
     "single "
     "runs get an assumed noise.",
     "区间为重复测量的 95 %(对数上的 Welch 检验,自由度取较小一方);单次运行采用假定噪声。"},
    {"limit.percentiles", "Percentiles are interpolated between order statistics.",
     "分位数在次序统计量之间线性插值。"},
    {"limit.window",
     "Runs were let be as short as {0} s instead of 30 s: their throughput includes ramp-up and "
     "drain.",
     "运行最短允许 {0} 秒而非 30 秒:吞吐包含起始与收尾阶段。"},
    {"limit.override", "Threshold {0} is {1} instead of {2}.", "阈值 {0} 为 {1},默认 {2}。"},
};

}  // namespace

std::span<const StringRow> ReportStrings() { return kRows; }

}  // namespace firesteel
