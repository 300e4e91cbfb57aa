// No speculation, as a drafter: every draft is empty.
#include <memory>

#include "speculation/make_internal.h"

namespace firesteel {
namespace {

class None : public Drafter {
 public:
  None() { info_.name = "none"; }
  const DrafterInfo& info() const override { return info_; }
  Status Observe(Exec&, std::span<const CommittedRows>, ConstMatrix, const KvView&,
                 Workspace&) override {
    return {};
  }
  Status Propose(Exec&, std::span<const DraftQuery> queries, const KvView&, Workspace&,
                 std::vector<Draft>* drafts) override {
    drafts->assign(queries.size(), {});
    return {};
  }

 private:
  DrafterInfo info_;
};

}  // namespace

Result<std::unique_ptr<Drafter>> MakeNone(const DrafterContext& context) {
  return std::unique_ptr<Drafter>(std::make_unique<None>());
}

}  // namespace firesteel
