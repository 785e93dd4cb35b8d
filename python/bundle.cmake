# What a wheel carries: libstarling.so, MPI's part of it as a library of its own, and Gloo's where Gloo needs MPI, and the libraries
# they need, in starling/lib; the program, which stands on the same libraries, in starling/bin, with a script `starling` that runs it;
# its jobs in starling/share. The C and C++ runtimes are the machine's, and so is MPI: mpirun and the ranks it starts must speak the
# same one.
#
# DT_RPATH, not DT_RUNPATH: the loader then looks into that folder for what the bundled libraries need, too, which know nothing of
# it. So they are copied as they are.
target_link_options(_starling PRIVATE -Wl,--disable-new-dtags)
set_target_properties(_starling PROPERTIES INSTALL_RPATH $ORIGIN/lib)
target_link_options(starling_cli PRIVATE -Wl,--disable-new-dtags)
set_target_properties(starling_cli PROPERTIES INSTALL_RPATH $ORIGIN/../lib)
install(TARGETS starling_cli RUNTIME DESTINATION starling/bin COMPONENT python)
if(SKBUILD_SCRIPTS_DIR)
  install(PROGRAMS script/starling DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
endif()
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../examples/ DESTINATION starling/share/starling/examples COMPONENT python
  FILES_MATCHING PATTERN "*.yaml" PATTERN pretraining EXCLUDE PATTERN cpp EXCLUDE)
set(plugins)
foreach(part mpi gloo)
  if(TARGET starling_${part})
    list(APPEND plugins $<TARGET_FILE:starling_${part}>)
    add_dependencies(_starling starling_${part})
    install(FILES $<TARGET_FILE:starling_${part}> DESTINATION starling/lib COMPONENT python)
  endif()
endforeach()
install(FILES $<TARGET_FILE:starling_shared> DESTINATION starling/lib COMPONENT python
  RENAME $<TARGET_SONAME_FILE_NAME:starling_shared>)
install(CODE "
  set(lib \"\${CMAKE_INSTALL_PREFIX}/starling/lib\")
  set(shared \"$<TARGET_FILE:starling_shared>\")
  set(carried \"$<TARGET_FILE:_starling>\" \"$<TARGET_FILE:starling_cli>\")
  set(plugins \"${plugins}\")
  set(readelf \"${CMAKE_READELF}\")
  include(\"${CMAKE_CURRENT_SOURCE_DIR}/bundle_libraries.cmake\")
" COMPONENT python)
