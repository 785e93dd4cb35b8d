#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/bits.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// Truth of a value: all but 0, NaN too. Highway's own comparison for inequality is ordered on some targets, where it
// takes NaN for 0.
template <class D, class V>
HWY_INLINE hn::Mask<D> is_true(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));
}

struct LogicalNot : MapUnary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V x, const double*) const {
    return hn::Eq(x, hn::Zero(d));
  }
};
struct LogicalAnd : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double*) const {
    return hn::And(is_true(d, a), is_true(d, b));
  }
};
struct LogicalOr : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double*) const {
    return hn::Or(is_true(d, a), is_true(d, b));
  }
};
struct LogicalXor : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double*) const {
    return hn::Xor(is_true(d, a), is_true(d, b));
  }
};
struct BitwiseNot : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Not(x);
  }
};
struct BitwiseAnd : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::And(a, b);
  }
};
struct BitwiseOr : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Or(a, b);
  }
};
struct BitwiseXor : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Xor(a, b);
  }
};
// Mask of valid shifts: a shift by less than 0 or by the width and more shifts everything out.
template <class D, class V>
HWY_INLINE hn::Mask<D> within_width(D d, V bits) {
  constexpr auto kWidth = static_cast<hn::TFromD<D>>(8 * sizeof(hn::TFromD<D>));
  return hn::Eq(hn::AndNot(hn::Set(d, kWidth - 1), bits), hn::Zero(d));
}

struct LeftShift : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V bits, const double*) const {
    const auto within = within_width(d, bits);
    return hn::IfThenElseZero(within, hn::Shl(x, hn::IfThenElseZero(within, bits)));
  }
};
struct RightShift : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V bits, const double*) const {
    constexpr auto kWidth = static_cast<hn::TFromD<D>>(8 * sizeof(hn::TFromD<D>));
    const V most = hn::Set(d, kWidth - 1);
    return hn::Shr(x, hn::IfThenElse(within_width(d, bits), bits, most));
  }
};

template <class F>
void add_integer(BlockTable& table, std::string_view name) {
  table.add(make_block<F, std::int32_t, std::int64_t>(name));
}

template <class F>
void add_bits(BlockTable& table, std::string_view name) {
  table.add(make_block<F, std::int32_t, std::int64_t, std::uint8_t>(name));
}

void add_blocks(BlockTable& table) {
  add_every<LogicalNot>(table, "logical_not");
  add_every<LogicalAnd>(table, "logical_and");
  add_every<LogicalOr>(table, "logical_or");
  add_every<LogicalXor>(table, "logical_xor");
  add_integer<BitwiseNot>(table, "bitwise_not");
  add_bits<BitwiseAnd>(table, "bitwise_and");
  add_bits<BitwiseOr>(table, "bitwise_or");
  add_bits<BitwiseXor>(table, "bitwise_xor");
  add_integer<LeftShift>(table, "left_shift");
  add_integer<RightShift>(table, "right_shift");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(bits, add_blocks);
}  // namespace starling::kernels
#endif
