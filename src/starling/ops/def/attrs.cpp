#include "starling/ops/def/attrs.h"

#include <bit>
#include <charconv>

#include "starling/base/text.h"

namespace starling {
namespace {

// Calls f.operator()<T>() with the C++ type of a kind.
template <class F>
decltype(auto) with_kind(AttrKind kind, F&& f) {
  switch (kind) {
    case AttrKind::integer: return f.template operator()<std::int64_t>();
    case AttrKind::real: return f.template operator()<double>();
    case AttrKind::boolean: return f.template operator()<bool>();
    case AttrKind::dtype: return f.template operator()<DType>();
    case AttrKind::ints: return f.template operator()<Shape>();
    case AttrKind::pair: return f.template operator()<Pair>();
    case AttrKind::symbol: return f.template operator()<Symbol>();
    case AttrKind::reduction: return f.template operator()<ReduceOp>();
  }
  fail("[attrs] expected a known kind of attribute, got code {}", static_cast<int>(kind));
}

std::string print_value(std::int64_t v) { return std::to_string(v); }
std::string print_value(double v) { return fmt::format("{}", v); }
std::string print_value(bool v) { return v ? "true" : "false"; }
std::string print_value(DType v) { return std::string(name(v)); }
std::string print_value(const Shape& v) { return to_string(v); }
std::string print_value(const Pair& v) { return fmt::format("[{}, {}]", v[0], v[1]); }
std::string print_value(Symbol v) { return in_quotes(v.str()); }
std::string print_value(ReduceOp v) { return in_quotes(std::string(name(v))); }

template <class T>
T parse_number(std::string_view text, std::string_view field) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), "[attrs] expected a number for '{}', got '{}'", field,
        text);
  return value;
}

Shape parse_ints(std::string_view text, std::string_view field) {
  check(text.size() >= 2 && text.front() == '[' && text.back() == ']', "[attrs] expected [i, j, …] for '{}', got '{}'",
        field, text);
  text = text.substr(1, text.size() - 2);
  Shape out;
  while (!text.empty()) {
    const auto comma = text.find(',');
    auto item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    out.push_back(parse_number<std::int64_t>(item, field));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string out;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

template <class T>
T parse_value(std::string_view text, std::string_view field) {
  if constexpr (std::is_same_v<T, bool>) {
    check(text == "true" || text == "false", "[attrs] expected true or false for '{}', got '{}'", field, text);
    return text == "true";
  } else if constexpr (std::is_same_v<T, DType>) {
    const auto dtype = parse_dtype(text);
    check(dtype.has_value(), "[attrs] expected a dtype for '{}', got '{}'", field, text);
    return *dtype;
  } else if constexpr (std::is_same_v<T, Shape>) {
    return parse_ints(text, field);
  } else if constexpr (std::is_same_v<T, Pair>) {
    const Shape ints = parse_ints(text, field);
    check(ints.rank() == 2, "[attrs] expected two integers for '{}', got '{}'", field, text);
    return {ints[0], ints[1]};
  } else if constexpr (std::is_same_v<T, Symbol>) {
    return Symbol(unquoted(text));
  } else if constexpr (std::is_same_v<T, ReduceOp>) {
    const auto reduce = parse_reduce_op(unquoted(text));
    check(reduce.has_value(), "[attrs] expected sum, mean, max, min or product for '{}', got '{}'", field,
          unquoted(text));
    return *reduce;
  } else {
    return parse_number<T>(text, field);
  }
}

std::size_t mix(std::size_t hash, std::size_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

std::size_t hash_value(std::int64_t v) { return static_cast<std::size_t>(v); }
std::size_t hash_value(double v) { return std::hash<std::uint64_t>()(std::bit_cast<std::uint64_t>(v)); }
std::size_t hash_value(bool v) { return v; }
std::size_t hash_value(DType v) { return static_cast<std::size_t>(v); }
std::size_t hash_value(ReduceOp v) { return static_cast<std::size_t>(v); }
std::size_t hash_value(const Pair& v) { return mix(static_cast<std::size_t>(v[0]), static_cast<std::size_t>(v[1])); }
std::size_t hash_value(Symbol v) { return std::hash<const void*>()(&v.str()); }
std::size_t hash_value(const Shape& v) {
  std::size_t hash = static_cast<std::size_t>(v.rank());
  for (auto d : v) hash = mix(hash, static_cast<std::size_t>(d));
  return hash;
}

// Whether calls with these values do the same: -0 is not 0, and NaN is what it is.
template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  else
    return a == b;
}

}  // namespace

Attrs Attrs::defaults(const AttrType& type) {
  Attrs attrs;
  attrs.type_ = &type;
  if (type.size > 0) std::memcpy(attrs.data_, type.defaults.data(), type.size);
  return attrs;
}

const AttrField* Attrs::find(std::string_view field) const {
  for (const auto& f : type_->fields) {
    if (f.name == field) return &f;
  }
  return nullptr;
}

std::string Attrs::print(const AttrField& field) const {
  return with_kind(field.kind, [&]<class T>() { return print_value(get<T>(field)); });
}

std::string Attrs::print() const {
  const Attrs plain = defaults(*type_);
  std::string out;
  for (const auto& field : type_->fields) {
    const bool same = with_kind(field.kind, [&]<class T>() { return get<T>(field) == plain.get<T>(field); });
    if (same) continue;
    out += (out.empty() ? "" : ", ") + std::string(field.name) + "=" + print(field);
  }
  return out;
}

void Attrs::set(std::string_view field, std::string_view text) {
  const auto* f = find(field);
  if (!f) {
    std::string known;
    for (const auto& k : type_->fields) known += (known.empty() ? "" : ", ") + std::string(k.name);
    fail("[attrs] expected one of ({}), got '{}'", known, field);
  }
  with_kind(f->kind, [&]<class T>() { get<T>(*f) = parse_value<T>(text, field); });
}

std::size_t Attrs::hash() const {
  std::size_t hash = type_->fields.size();
  for (const auto& field : type_->fields) {
    hash = mix(hash, with_kind(field.kind, [&]<class T>() { return hash_value(get<T>(field)); }));
  }
  return hash;
}

bool operator==(const Attrs& a, const Attrs& b) {
  if (a.type_ != b.type_) return false;
  for (const auto& field : a.type_->fields) {
    if (!with_kind(field.kind, [&]<class T>() { return is_same(a.get<T>(field), b.get<T>(field)); })) return false;
  }
  return true;
}

}  // namespace starling
