// Counters that a client tells its servers, has from them, and keeps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "starling/dist/ps/client_state.h"

namespace starling::dist::ps {
namespace {

// Rounds of one server's loop, the requests that it found in them, and the most.
void add_queue(const nlohmann::json& counters, std::size_t server, std::map<std::string, double>& to) {
  constexpr std::string_view kQueue = "queue.";
  const std::string of = fmt::format("queue_of.{}.", server);
  for (const auto& [name, value] : counters.items()) {
    if (!name.starts_with(kQueue)) continue;
    const std::string bar = name.substr(kQueue.size());
    if (bar == "largest") {
      to[of + bar] = value.get<double>();
      continue;
    }
    to[of + "rounds"] += value.get<double>();
    to[of + "requests"] += value.get<double>() * std::stod(bar);
  }
}

}  // namespace

void Client::tell_errors(const std::vector<double>& errors, const std::vector<double>& forms) {
  const auto copy = std::make_shared<std::vector<double>>(errors);
  copy->insert(copy->end(), forms.begin(), forms.end());
  const Bytes bytes{copy, reinterpret_cast<const std::byte*>(copy->data()), copy->size() * sizeof(double)};
  ServerLinks& links = state_->links;
  links.send(0, {{.verb = Verb::errors, .priority = kLast}, {bytes}}, links.new_ticket(), {});
}

Counters Client::server_counters() {
  std::map<std::string, double> sums;
  ServerLinks& links = state_->links;
  const HeldTicket ticket(links);
  for (std::size_t s = 0; s < links.size(); ++s)
    links.send(s, {{.verb = Verb::stats, .priority = kLast}, {}}, ticket, [&sums, s](const Message& answer) {
      if (answer.parts.empty()) return;
      const auto all = nlohmann::json::parse(text_of(answer.parts[0]));
      for (const auto& [name, value] : all.items()) {
        double& sum = sums[name];
        sum = name.ends_with(".largest") ? std::max(sum, value.get<double>()) : sum + value.get<double>();
      }
      add_queue(all, s, sums);
    });
  wait(ticket);
  return {sums.begin(), sums.end()};
}

Counters Client::counters() const { return state_->links.counters(); }

}  // namespace starling::dist::ps
