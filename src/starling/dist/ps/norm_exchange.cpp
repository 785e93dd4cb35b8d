#include "starling/dist/ps/norm_exchange.h"

namespace starling::dist::ps {

void NormExchange::add(int worker, Step step) {
  waiting_.push_back({{worker, counts_[worker]++}, std::move(step), false});
}

void NormExchange::hear(int server, const Tag& tag, const NormSums& sums) { heard_[tag].insert({server, sums}); }

std::size_t NormExchange::forget(int worker) {
  if (ordered_) return 0;
  return std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.tag.worker != worker) return false;
    heard_.erase(one.tag);
    return true;
  });
}

bool NormExchange::first_of_its_kind(std::size_t place) const {
  if (ordered_) return place == 0;
  for (std::size_t i = 0; i < place; ++i) {
    if (waiting_[i].tag.worker == waiting_[place].tag.worker) return false;
  }
  return true;
}

std::optional<NormExchange::Measured> NormExchange::next_to_measure() {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (!waiting_[i].measured && first_of_its_kind(i)) return Measured{waiting_[i].tag, &waiting_[i].step};
  }
  return std::nullopt;
}

void NormExchange::tell(const Tag& tag, const NormSums& own) {
  for (Waiting& one : waiting_) one.measured = one.measured || one.tag == tag;
  hear(server_, tag, own);
}

std::optional<NormExchange::Ready> NormExchange::next_to_make() {
  for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
    const auto heard = heard_.find(one->tag);
    if (!one->measured || heard == heard_.end() || heard->second.size() < servers_.size()) continue;
    Ready ready{std::move(one->step), {}};
    for (const auto& [server, sums] : heard->second) {  // in the same order everywhere
      ready.whole.weights += sums.weights;
      ready.whole.others += sums.others;
    }
    heard_.erase(heard);
    waiting_.erase(one);
    return ready;
  }
  return std::nullopt;
}

}  // namespace starling::dist::ps
