# The C interface as a library of its own, libstarling_c.so: it exports what starling_c.h declares and nothing else, under the
# symbol versions of starling_c.map. Its soname follows STARLING_C_VERSION, which changes only with the interface.
set(starling_capi ${CMAKE_CURRENT_SOURCE_DIR}/starling/capi)
file(STRINGS ${starling_capi}/starling_c.h version REGEX "define STARLING_C_VERSION")
string(REGEX MATCH "[0-9]+$" version "${version}")
add_library(starling_c SHARED $<TARGET_OBJECTS:starling_capi>)
add_library(Starling::starling_c ALIAS starling_c)
set_target_properties(starling_c PROPERTIES VERSION ${version}.${PROJECT_VERSION} SOVERSION ${version}
  INSTALL_RPATH $ORIGIN LINK_DEPENDS ${starling_capi}/starling_c.map)
target_link_libraries(starling_c PRIVATE starling_shared)
target_link_options(starling_c PRIVATE -Wl,--version-script=${starling_capi}/starling_c.map)
target_include_directories(starling_c INTERFACE $<BUILD_INTERFACE:${starling_capi}> $<INSTALL_INTERFACE:include>)
