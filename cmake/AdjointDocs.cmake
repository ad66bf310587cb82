# The target `docs` makes pages of the installed headers' documentation, if Doxygen is found. A warning is an error. A
# project that contains this one may have a target `docs` of its own, so the target exists only at top level.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
find_package(Doxygen 1.9.4 QUIET)
if(DOXYGEN_FOUND)
  set(headers ${PROJECT_BINARY_DIR}/docs/include)
  # All documents, because they link to each other.
  file(GLOB documents CONFIGURE_DEPENDS *.md docs/*.md bench/*/*.md examples/*/*.md ops/*/README.md ops/*/*/README.md)
  list(JOIN documents " " documents)
  configure_file(docs/Doxyfile.in ${PROJECT_BINARY_DIR}/docs/Doxyfile @ONLY)
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${headers}
    COMMAND ${CMAKE_COMMAND} -DADJOINT_SOURCE_DIR=${PROJECT_SOURCE_DIR} -DADJOINT_INCLUDE_DIR=${headers}
            -DADJOINT_DATA=${ADJOINT_DATA} -P ${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake
    COMMAND Doxygen::doxygen ${PROJECT_BINARY_DIR}/docs/Doxyfile
    COMMENT "Pages in ${PROJECT_BINARY_DIR}/docs/html"
    VERBATIM)
endif()
