# The target `docs`: the installed headers' documentation as pages, where Doxygen is found. A warning is an error. As a part
# of another project, whose target of this name it could be, there is none.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
find_package(Doxygen 1.9.4 QUIET)
if(DOXYGEN_FOUND)
  set(headers ${PROJECT_BINARY_DIR}/docs/include)
  # Every document: they link to each other.
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
