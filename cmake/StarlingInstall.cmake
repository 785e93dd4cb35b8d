# `cmake --install`: library static and shared, headers, program, example jobs and presets, and the package that find_package(Starling) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(starling_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Starling)

install(TARGETS starling starling_shared starling_c starling_deps EXPORT StarlingTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT StarlingTargets NAMESPACE Starling:: DESTINATION ${starling_package_dir})
# Nobody outside of them includes the program or how a device's kernels are made.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/starling DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE PATTERN capi EXCLUDE REGEX "/kernels/(cpu|cuda|reference)$" EXCLUDE)
# C programs: #include <starling_c.h>, cc $(pkg-config --cflags --libs starling_c)
install(FILES ${PROJECT_SOURCE_DIR}/src/starling/capi/starling_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Installed files may be moved as a whole: the prefix is told from where the .pc file lies.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(starling_pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(starling_pc_libdir ${CMAKE_INSTALL_LIBDIR})
else()
  file(RELATIVE_PATH starling_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" starling_pc_prefix "\${pcfiledir}/${starling_pc_prefix}")
  set(starling_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/starling_c.pc.in ${PROJECT_BINARY_DIR}/starling_c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/starling_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET starling_cli)
  install(TARGETS starling_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(NOT CMAKE_CROSSCOMPILING)
    set(starling_completions ${PROJECT_BINARY_DIR}/completions)
    install(FILES ${starling_completions}/starling.bash RENAME starling
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${starling_completions}/starling.zsh RENAME _starling
      DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${starling_completions}/starling.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/starling/examples
  FILES_MATCHING PATTERN "*.yaml" PATTERN pretraining EXCLUDE PATTERN cpp EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/StarlingConfig.cmake.in
  ${PROJECT_BINARY_DIR}/StarlingConfig.cmake INSTALL_DESTINATION ${starling_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/StarlingConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/StarlingConfig.cmake ${PROJECT_BINARY_DIR}/StarlingConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/StarlingLapack.cmake DESTINATION ${starling_package_dir})
