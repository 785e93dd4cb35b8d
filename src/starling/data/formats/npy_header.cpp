#include "starling/data/formats/npy_header.h"

#include <bit>
#include <charconv>
#include <string_view>

#include "starling/base/bytes.h"
#include "starling/base/error.h"

namespace starling::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeader = 64 << 10;

// Reads the header's text, a Python dictionary with three entries.
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader read() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const auto key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        read_descr(header);
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.type.shape = tuple();
      } else {
        refuse("the keys descr, fortran_order and shape once each", fmt::format("'{}'", key));
      }
      if (take(',')) continue;
      expect('}');
      break;
    }
    spaces();
    if (!text_.empty()) refuse("the header's dictionary to end it", "more");
    if (!descr || !order || !shape) refuse("descr, fortran_order and shape", "fewer");
    return header;
  }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view given) const {
    fail("[npy] {}: expected {} in the header, got {}", name_, expected, given);
  }
  void spaces() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool take(char c) {
    spaces();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("'{}'", c), text_.empty() ? "the end" : fmt::format("'{}'", text_.substr(0, 20)));
  }
  std::string_view quoted() {
    spaces();
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '\'' && quote != '"') refuse("a text in quotes", fmt::format("'{}'", text_.substr(0, 20)));
    const auto end = text_.find(quote, 1);
    if (end == std::string_view::npos) refuse("a text in quotes", "no closing quote");
    const auto inside = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return inside;
  }
  bool boolean() {
    spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    refuse("True or False", fmt::format("'{}'", text_.substr(0, 20)));
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      spaces();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) refuse("sizes of at least 0", fmt::format("'{}'", text_.substr(0, 20)));
      if (shape.rank() == kMaxRank) refuse(fmt::format("at most {} axes", kMaxRank), "more");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape.push_back(size);
      if (take(',')) continue;
      expect(')');
      break;
    }
    return shape;
  }
  void read_descr(NpyHeader& header) {
    spaces();
    if (text_.starts_with('[')) refuse("one plain type", "a structured one");
    const auto descr = quoted();
    const char order = descr.empty() ? '\0' : descr.front();
    const auto kind = descr.substr(std::min<std::size_t>(1, descr.size()));
    for (const auto& [text, dtype] : kKinds) {
      if (kind != text) continue;
      if (order != '<' && order != '>' && order != '|' && order != '=') break;
      header.type.dtype = dtype;
      header.swapped = order == '>' && size_of(dtype) > 1;
      return;
    }
    refuse("a type of numbers that tensors have ('<f4', '<i8', '|u1', '|b1', …)", fmt::format("'{}'", descr));
  }

 public:
  // bfloat16 has no type code in NumPy; ml_dtypes writes it as two untyped bytes.
  static constexpr std::pair<std::string_view, DType> kKinds[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16},    {"V2", DType::bf16}, {"i8", DType::i64},
      {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},     {"u8", DType::u64},  {"u4", DType::u32},
      {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean}};

 private:
  std::string_view text_;
  const std::string& name_;
};

std::string descr_of(DType dtype) {
  for (const auto& [text, known] : DictReader::kKinds) {
    if (known != dtype) continue;
    const bool orderless = size_of(dtype) == 1 || dtype == DType::bf16;
    return (orderless ? "|" : "<") + std::string(text);
  }
  fail("[npy] expected a dtype that npy files have, got {}", name(dtype));
}

std::string tuple_of(const Shape& shape) {
  std::string text = "(";
  for (auto size : shape) text += fmt::format("{}, ", size);
  if (shape.rank() > 0) text.resize(text.size() - (shape.rank() == 1 ? 1 : 2));
  return text + ")";
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text = as_text(file);
  check(text.starts_with(kMagic),
        "[npy] {}: expected the beginning of a npy file, got other bytes (numpy.save "
        "writes one)",
        name);
  check(text.size() >= 10, "[npy] {}: expected a header of at least 10 bytes, got {}", name, text.size());
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(file[i]); };
  const std::size_t version = byte(6);
  check(version >= 1 && version <= 3, "[npy] {}: expected version 1 to 3, got {}", name, version);
  const std::size_t begin = version == 1 ? 10 : 12;
  check(text.size() >= begin, "[npy] {}: expected a header of at least {} bytes, got {}", name, begin, text.size());
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  check(length <= kMostHeader && length <= text.size() - begin,
        "[npy] {}: expected a header of at most {} bytes, got {}", name, std::min(kMostHeader, text.size() - begin),
        length);
  NpyHeader header = DictReader(text.substr(begin, length), name).read();
  header.data_begin = begin + length;
  check_size(header.type.shape, size_of(header.type.dtype), "npy");
  return header;
}

std::string format_npy_header(const TensorType& type) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr_of(type.dtype),
                                 tuple_of(type.shape));
  constexpr std::size_t kPrefix = 10, kAlign = 64;
  dict.append((kAlign - (kPrefix + dict.size() + 1) % kAlign) % kAlign, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {1, 0, static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace starling::data
