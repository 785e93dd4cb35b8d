# Compile options shared by every Starling target, but not by those who link it.
add_library(starling_options INTERFACE)
target_compile_options(starling_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>
  # g++ 12 reports overlapping copies inside std::string's operator+ that cannot happen (GCC bug 105651). In a batch every
  # source is an included file, and types that use its unnamed namespace are taken for a header's.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict;-Wno-subobject-linkage>
  # clang sees that stable_sort of libstdc++ 12 uses what the same library calls deprecated.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-deprecated-declarations>)
# Warnings are errors where we know the compiler, in the presets of scripts/test; a user's newer one may warn of more.
if(STARLING_WERROR)
  target_compile_options(starling_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(STARLING_SANITIZE STREQUAL "address")
  target_compile_options(starling_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  if(STARLING_SANITIZE_BUT)
    target_compile_options(starling_options INTERFACE -fno-sanitize=${STARLING_SANITIZE_BUT})
  endif()
  target_link_options(starling_options INTERFACE -fsanitize=address,undefined)
elseif(STARLING_SANITIZE STREQUAL "thread")
  target_compile_options(starling_options INTERFACE -fsanitize=thread)
  target_link_options(starling_options INTERFACE -fsanitize=thread)
endif()
if(STARLING_SANITIZE)
  # One instruction set, this machine's, instead of a copy for each; products and sums stay apart, as in other builds.
  target_compile_options(starling_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-march=native;-ffp-contract=off;-DHWY_COMPILE_ONLY_STATIC>)
endif()
if(STARLING_FUZZ)
  target_compile_options(starling_options INTERFACE -fsanitize=fuzzer-no-link,address)
  target_link_options(starling_options INTERFACE -fsanitize=address)
endif()
