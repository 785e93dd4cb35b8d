#include "starling/ops/def/einsum.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"

namespace starling {
namespace {

constexpr int kDots = 1000;  // label of the last dimension of "..."; one more for each before it

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters of a term, with kDots for "...".
std::vector<int> read_term(const std::string& equation, const std::string& term) {
  std::vector<int> labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
      continue;
    }
    check(term.compare(i, 3, "...") == 0, "[einsum] expected letters, ',', '->' and '...', got '{}' in \"{}\"", term[i],
          equation);
    check(std::count(labels.begin(), labels.end(), kDots) == 0, "[einsum] expected \"...\" once a term, got \"{}\"",
          equation);
    labels.push_back(kDots);
    i += 2;
  }
  return labels;
}

struct Terms {
  std::vector<std::vector<int>> in;
  std::vector<int> out;
  bool written = false;  // the result is explicit
};

Terms split(const std::string& equation) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  Terms terms;
  const auto arrow = text.find("->");
  terms.written = arrow != std::string::npos;
  if (terms.written) terms.out = read_term(equation, text.substr(arrow + 2));
  std::string left = text.substr(0, arrow);
  for (std::size_t at = 0; at <= left.size();) {
    const auto comma = std::min(left.find(',', at), left.size());
    terms.in.push_back(read_term(equation, left.substr(at, comma - at)));
    at = comma + 1;
  }
  return terms;
}

// Expands "..." to `dots` labels, counted from the right so that they broadcast.
std::vector<int> expand(const std::vector<int>& term, int dots) {
  std::vector<int> labels;
  for (const int label : term) {
    if (label != kDots) labels.push_back(label);
    for (int d = dots - 1; label == kDots && d >= 0; --d) labels.push_back(kDots + d);
  }
  return labels;
}

struct Reader {
  const std::string& equation;
  std::map<int, std::int64_t> sizes{};
  std::map<int, int> uses{};
  int dots = 0;

  std::vector<int> operand(const std::vector<int>& term, const Shape& shape, std::size_t index) {
    const bool dotted = std::count(term.begin(), term.end(), kDots) > 0;
    const int extra = shape.rank() - static_cast<int>(term.size()) + (dotted ? 1 : 0);
    check(dotted ? extra >= 0 : extra == 0, "[einsum] expected operand {} of rank {}{} for \"{}\", got {}", index,
          static_cast<int>(term.size()) - (dotted ? 1 : 0), dotted ? " or more" : "", equation, to_string(shape));
    if (dotted) dots = std::max(dots, extra);
    auto labels = expand(term, extra);
    for (std::size_t i = 0; i < labels.size(); ++i) note(labels[i], shape[static_cast<int>(i)], index);
    return labels;
  }

  void note(int label, std::int64_t size, std::size_t index) {
    ++uses[label];
    const auto [at, fresh] = sizes.emplace(label, size);
    if (fresh || at->second == size) return;
    if (label >= kDots && at->second == 1) at->second = size;
    if (label >= kDots && (size == 1 || at->second == size)) return;
    fail("[einsum] expected one size for '{}' of \"{}\", got {} and {} of operand {}",
         label >= kDots ? std::string("...") : std::string(1, static_cast<char>(label)), equation, at->second, size,
         index);
  }

  std::vector<int> result(const Terms& terms) const {
    if (terms.written) return expand(terms.out, dots);
    std::vector<int> out;
    for (int d = dots - 1; d >= 0; --d) out.push_back(kDots + d);
    for (const auto& [label, count] : uses) {
      if (label < kDots && count == 1) out.push_back(label);
    }
    return out;
  }
};

}  // namespace

op::EinsumLabels op::read_equation(const std::string& equation, std::span<const Shape> shapes) {
  const Terms terms = split(equation);
  check(terms.in.size() == shapes.size(), "[einsum] expected {} operands for \"{}\", got {}", terms.in.size(), equation,
        shapes.size());
  Reader reader{equation};
  op::EinsumLabels labels;
  for (std::size_t i = 0; i < shapes.size(); ++i) labels.in.push_back(reader.operand(terms.in[i], shapes[i], i));
  labels.out = reader.result(terms);
  check(labels.out.size() <= kMaxRank, "[einsum] expected a result of rank {} or less, got {} in \"{}\"", kMaxRank,
        labels.out.size(), equation);
  std::map<int, int> dense;
  for (const auto& [label, size] : reader.sizes) {
    dense.emplace(label, static_cast<int>(labels.sizes.size()));
    labels.sizes.push_back(size);
  }
  check(labels.sizes.size() <= 52, "[einsum] expected 52 different dimensions or less, got {}", labels.sizes.size());
  for (auto& label : labels.out) {
    const auto found = dense.find(label);
    check(found != dense.end(), "[einsum] expected a result of letters that operands have, got \"{}\"", equation);
    label = found->second;
  }
  for (auto& term : labels.in) {
    for (auto& label : term) label = dense.at(label);
  }
  return labels;
}

Shape op::EinsumLabels::out_shape() const {
  Shape shape;
  for (const int label : out) shape.push_back(sizes[static_cast<std::size_t>(label)]);
  return shape;
}

std::vector<std::int64_t> op::label_strides(const std::vector<int>& labels, const Shape& shape, const Shape& strides,
                                            std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> out(sizes.size(), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    const int d = static_cast<int>(i);
    if (shape[d] == sizes[label]) out[label] += strides[d];
  }
  return out;
}

}  // namespace starling
