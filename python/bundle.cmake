# What a wheel carries: libstarling.so, MPI's part of it as a library of its own, and the libraries they need, in starling/lib; the
# program, which stands on the same libraries, in starling/bin, with a script `starling` that runs it; its jobs in starling/share.
# The C and C++ runtimes are the machine's, and so is MPI: mpirun and the ranks it starts must speak the same one.
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
set(bundled starling_shared)
if(TARGET starling_mpi)
  list(APPEND bundled starling_mpi)
  add_dependencies(_starling starling_mpi)
endif()
foreach(library ${bundled})
  install(FILES $<TARGET_FILE:${library}> DESTINATION starling/lib COMPONENT python
    RENAME $<IF:$<STREQUAL:${library},starling_shared>,$<TARGET_SONAME_FILE_NAME:starling_shared>,libstarling_mpi.so>)
endforeach()
# A path of its own would hide that folder from what a library needs; the build's paths mean nothing elsewhere.
install(CODE "
  set(lib \"\${CMAKE_INSTALL_PREFIX}/starling/lib\")
  file(GLOB own \"\${lib}/libstarling*\")
  foreach(file \${own})
    file(RPATH_REMOVE FILE \"\${file}\")
  endforeach()
  set(runtimes ld-linux.* libc libm libdl librt libpthread libresolv libutil libstdc.* libgcc_s libmpi libstarling)
  list(JOIN runtimes | runtimes)
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:starling_shared>\" RESOLVED_DEPENDENCIES_VAR needed
    PRE_EXCLUDE_REGEXES \"^(\${runtimes})\\\\.so\")
  foreach(file \${needed})
    # Under the name that it is asked for by; a wheel has no links.
    cmake_path(GET file FILENAME name)
    file(REAL_PATH \"\${file}\" real)
    file(COPY_FILE \"\${real}\" \"\${lib}/\${name}\")
  endforeach()
" COMPONENT python)
