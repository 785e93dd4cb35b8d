// Commands of a client over the vectors that servers hold beside their weights.
#include "starling/dist/ps/client_state.h"
#include "starling/dist/ps/vectors.h"

namespace starling::dist::ps {
namespace {

// Sum of the results of all servers, in their order.
double command(ServerLinks& links, VectorOp op, int a, int b, double alpha) {
  std::vector<double> results(links.size(), 0);
  const HeldTicket ticket(links);
  const Header header{
      .verb = Verb::vectors, .clock = a, .version = b, .weight = alpha, .slot = static_cast<std::uint32_t>(op)};
  for (std::size_t s = 0; s < links.size(); ++s)
    links.send(s, {header, {}}, ticket, [&results, s](const Message& answer) { results[s] = answer.header.weight; });
  links.wait(ticket);
  double sum = 0;
  for (const double result : results) sum += result;
  return sum;
}

}  // namespace

void Client::zero(int a, std::int64_t first) {
  command(state_->links, VectorOp::zero, a, a, static_cast<double>(first));
}
void Client::copy(int a, int b) { command(state_->links, VectorOp::copy, a, b, 0); }
void Client::scale(int a, double alpha) { command(state_->links, VectorOp::scale, a, a, alpha); }
void Client::axpy(int a, double alpha, int b) { command(state_->links, VectorOp::axpy, a, b, alpha); }
void Client::pseudo_gradient(int a, double penalty, int b) {
  command(state_->links, VectorOp::pseudo_gradient, a, b, penalty);
}
void Client::fill_zeros(int a, int b) { command(state_->links, VectorOp::fill_zeros, a, b, 0); }
void Client::project_orthant(int a, int b) { command(state_->links, VectorOp::project_orthant, a, b, 0); }
double Client::sum_abs(int a) { return command(state_->links, VectorOp::sum_abs, a, a, 0); }
double Client::dot(int a, int b) { return command(state_->links, VectorOp::dot, a, b, 0); }

}  // namespace starling::dist::ps
