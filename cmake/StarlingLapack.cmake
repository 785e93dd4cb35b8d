# LAPACK, from the OpenMP build of OpenBLAS: it then shares the one OpenMP runtime of the process. Gives OpenBLAS::openmp.
if(NOT TARGET OpenBLAS::openmp)
  find_library(STARLING_OPENBLAS NAMES openblas openblaso PATH_SUFFIXES openblas-openmp)
  if(STARLING_OPENBLAS)
    add_library(OpenBLAS::openmp UNKNOWN IMPORTED)
    set_target_properties(OpenBLAS::openmp PROPERTIES IMPORTED_LOCATION ${STARLING_OPENBLAS})
  endif()
endif()
