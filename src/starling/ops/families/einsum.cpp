#include "starling/ops/api/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/einsum.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor einsum(std::string_view equation, std::span<const Tensor> xs) {
  return apply1(named_op<"einsum">(), xs, op::EinsumAttrs{Symbol(equation)});
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> xs) {
  return einsum(equation, std::span(xs.begin(), xs.size()));
}

namespace {

template <class Range>
op::EinsumLabels labels_of(const Range& types, const Attrs& attrs) {
  std::vector<Shape> shapes;
  for (const auto& type : types) shapes.push_back(type.shape);
  return op::read_equation(attrs.as<op::EinsumAttrs>().equation.str(), shapes);
}

Types infer_einsum(const InferCall& call) {
  check(!call.in.empty(), "[einsum] expected at least one operand, got none");
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  return {TensorType{call.in[0].dtype, labels_of(call.in, call.attrs).out_shape()}};
}

char letter(int label) { return static_cast<char>(label < 26 ? 'a' + label : 'A' + (label - 26)); }

// Operand without its broadcast dimensions, and its letters.
struct Plainly {
  Tensor x;
  std::string term;
};
Plainly plainly(const Tensor& x, const std::vector<int>& labels, const op::EinsumLabels& all) {
  Plainly out;
  Shape shape;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto size = x.shape()[static_cast<int>(i)];
    if (size != all.sizes[static_cast<std::size_t>(labels[i])]) continue;
    shape.push_back(size);
    out.term += letter(labels[i]);
  }
  out.x = shape == x.shape() ? x : reshape(x, shape);
  return out;
}

// Gradient of an operand: the einsum of the incoming gradient and the other operands, with the operand's letters as its
// result; a letter that none of them has is broadcast.
TensorList grad_einsum(const GradCall& c) {
  const Types types = types_of(c.in);
  const op::EinsumLabels labels = labels_of(types, c.attrs);
  std::vector<Plainly> operands;
  for (std::size_t i = 0; i < c.in.size(); ++i) operands.push_back(plainly(c.in[i], labels.in[i], labels));
  std::string result;
  for (const int label : labels.out) result += letter(label);
  TensorList out(c.in.size());
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (!c.needs(static_cast<int>(i))) continue;
    std::vector<Tensor> xs = {c.grads[0]};
    std::string equation = result;
    for (std::size_t j = 0; j < operands.size(); ++j) {
      if (j == i) continue;
      xs.push_back(operands[j].x);
      equation += "," + operands[j].term;
    }
    for (const int label : labels.in[i]) {
      const bool wanted = operands[i].term.find(letter(label)) != std::string::npos;
      if (!wanted || equation.find(letter(label)) != std::string::npos) continue;
      xs.push_back(full({labels.sizes[static_cast<std::size_t>(label)]}, 1.0, c.grads[0].dtype()));
      equation += std::string(",") + letter(label);
    }
    out[i] = reshape(einsum(equation + "->" + operands[i].term, xs), c.in[i].shape());
  }
  return out;
}

// Splitting a label on every operand that has it: the result is split too or, if the label is summed over, partial.
ShardRule shard_einsum(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const op::EinsumLabels labels = labels_of(call.in, call.attrs);
  const auto places = [&](const std::vector<int>& term, const Shape& shape, int label) {
    std::vector<int> at;
    for (std::size_t d = 0; d < term.size(); ++d) {
      if (term[d] == label && shape[static_cast<int>(d)] == labels.sizes[static_cast<std::size_t>(label)])
        at.push_back(static_cast<int>(d));
    }
    return at;
  };
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.layouts[i].is_split()) continue;
    const int label = labels.in[i][static_cast<std::size_t>(call.layouts[i].dim)];
    const auto out = places(labels.out, call.out[0].shape, label);
    bool once = out.size() <= 1;
    for (std::size_t j = 0; j < call.in.size(); ++j) once &= places(labels.in[j], call.in[j].shape, label).size() <= 1;
    if (!once || places(labels.in[i], call.in[i].shape, label).empty()) continue;
    for (std::size_t j = 0; j < call.in.size(); ++j) {
      const auto at = places(labels.in[j], call.in[j].shape, label);
      if (!at.empty()) rule.in[j] = Layout::split(at[0]);
    }
    rule.out[0] = out.empty() ? Layout::partial() : Layout::split(out[0]);
    return rule;
  }
  return rule;
}

std::vector<OpCase> einsum_cases() {
  const auto one = [](const char* equation, std::initializer_list<Shape> shapes) {
    OpCase c{{}, op::EinsumAttrs{Symbol(equation)}};
    for (const auto& shape : shapes) c.in.push_back({.shape = shape});
    return c;
  };
  return {one("ij,jk->ik", {{3, 4}, {4, 5}}),
          one("ij,jk", {{9, 17}, {17, 20}}),
          one("bij,bkj->bki", {{2, 3, 4}, {2, 5, 4}}),
          one("bthd,bshd->bhts", {{2, 3, 2, 4}, {2, 5, 2, 4}}),
          one("bhts,bshd->bthd", {{2, 2, 3, 5}, {2, 5, 2, 4}}),
          one("ii", {{4, 4}}),
          one("iij->ji", {{3, 3, 4}}),
          one("i->ii", {{5}}),
          one("ij->", {{3, 40}}),
          one("ij->j", {{5, 20}}),
          one("ij->i", {{5, 20}}),
          one("ijk->ik", {{3, 4, 17}}),
          one("ijk->ki", {{3, 4, 17}}),
          one("ij->ji", {{4, 6}}),
          one("i,i->i", {{20}, {20}}),
          one("bi, bi -> b", {{3, 18}, {3, 18}}),
          one("i,j", {{4}, {6}}),
          one("...ij,...jk->...ik", {{2, 1, 3, 4}, {3, 4, 2}}),
          one("i...,j...", {{3, 2}, {4, 2}}),
          one("...i->i", {{2, 3, 4}}),
          one("ij,jk,kl->il", {{3, 4}, {4, 5}, {5, 2}}),
          one("ab,cb,db->acd", {{2, 3}, {4, 3}, {2, 3}}),
          one("a,b,c->abc", {{2}, {3}, {2}}),
          one("abk,kcl->lbac", {{2, 3, 4}, {4, 2, 3}}),
          one(",i->i", {{}, {3}}),
          one("ik,jl->ij", {{3, 2}, {4, 5}}),
          one("ij,jk->ik", {{3, 0}, {0, 5}}),
          one("ij,jk->ik", {{0, 4}, {4, 5}})};
}

// One operation per operand for every combination of all indices.
double flops_of_einsum(const CostCall& call) {
  const std::string text = call.attrs.as<op::EinsumAttrs>().equation.str();
  std::map<char, double> sizes;
  double rest = 1;  // elements of the ellipsis
  std::size_t operand = 0;
  int dim = 0;
  for (std::size_t i = 0; i < text.size() && text[i] != '-' && operand < call.in.size(); ++i) {
    if (text[i] == ',') {
      ++operand;
      dim = 0;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      double& known = sizes[text[i]];
      known = std::max(known, costs::size(call.in[operand], dim++));
    } else if (text[i] == '.') {
      int letters = 0;
      for (std::size_t j = i; j < text.size() && text[j] != ',' && text[j] != '-'; ++j)
        letters += std::isalpha(static_cast<unsigned char>(text[j])) != 0 ? 1 : 0;
      double here = 1;
      for (; dim + letters < call.in[operand].shape.rank(); ++dim) here *= costs::size(call.in[operand], dim);
      rest = std::max(rest, here);
      i += 2;
    }
  }
  double product = rest;
  for (const auto& [letter, value] : sizes) product *= value;
  return product * std::max<double>(1, static_cast<double>(call.in.size()));
}

}  // namespace

void register_ops_einsum(OpRegistry& ops) {
  ops.add({.name = "einsum",
           .doc = "Sums of products named by the letters of dimensions: bij,bjk->bik.",
           .inputs = {"xs..."},
           .attrs = &attr_type<op::EinsumAttrs>(),
           .infer = infer_einsum,
           .gradient = grad_einsum,
           .shard = shard_einsum,
           .cases = einsum_cases,
           .saves = kSavesInputs,
           .cost = {flops_of_einsum},
           .precision = Width::narrow});
}

}  // namespace starling
