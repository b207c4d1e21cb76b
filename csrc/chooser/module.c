/* The module as Python sees it: importing it loads a library, whose operators register themselves with torch.
 *
 * It is executed for each interpreter that imports it; the library is loaded by the first. */
#include "chooser.h"
#include "table.h"

#include <Python.h>
#include <stdlib.h>

static const struct table TABLE = {MODULE_NAME, TARGET, LIBRARIES, sizeof LIBRARIES / sizeof *LIBRARIES};

/* Paths and variables need not be UTF-8. */
static void raise_import_error(const struct text *why) {
    PyObject *message = PyUnicode_DecodeFSDefaultAndSize(why->bytes, (Py_ssize_t)why->length);
    PyObject *name = message ? PyUnicode_FromString(MODULE_NAME) : NULL;
    if (name)
        PyErr_SetImportError(message, name, NULL);
    Py_XDECREF(name);
    Py_XDECREF(message);
}

static bool is_imported(const char *module) {
    PyObject *name = PyUnicode_FromString(module);
    PyObject *found = name ? PyImport_GetModule(name) : NULL;
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(found);
    return found != NULL;
}

/* Sets an attribute; the value is this function's to give up, and may be NULL after an error. */
static bool set(PyObject *module, const char *name, PyObject *value) {
    const bool done = value && PyObject_SetAttrString(module, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

static PyObject *needs_tuple(const struct library *library) {
    Py_ssize_t count = 0;
    while (library->needs[count])
        count++;
    PyObject *names = PyTuple_New(count);
    for (Py_ssize_t index = 0; names && index < count; index++) {
        PyObject *name = PyUnicode_FromString(library->needs[index]);
        if (!name || PyTuple_SetItem(names, index, name) != 0)
            Py_CLEAR(names);
    }
    return names;
}

/* (name, needs, whether this CPU can run it) of each library. */
static PyObject *libraries_tuple(const struct report *cpu) {
    PyObject *rows = PyTuple_New((Py_ssize_t)TABLE.count);
    for (size_t index = 0; rows && index < TABLE.count; index++) {
        const struct library *library = &TABLE.libraries[index];
        PyObject *needs = needs_tuple(library);
        PyObject *runs = can_run(cpu, library) ? Py_True : Py_False;
        PyObject *row = needs ? Py_BuildValue("(sNO)", library->name, needs, runs) : NULL;
        if (!row || PyTuple_SetItem(rows, (Py_ssize_t)index, row) != 0)
            Py_CLEAR(rows);
    }
    return rows;
}

static int execute(PyObject *module) {
    struct report cpu = {0};
    struct text why = {0};
    probe(&cpu);
    const struct library *library = choose(&TABLE, &cpu, getenv(CHOICE), &why);
    if (!library || !load(library, &why)) {
        if (library && !is_imported("torch"))
            append(&why, " (import torch first: its libraries are needed)");
        raise_import_error(&why);
        return -1;
    }
    return set(module, "__isa__", PyUnicode_FromString(library->name)) &&
                   set(module, "__isas__", libraries_tuple(&cpu))
               ? 0
               : -1;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = MODULE_NAME,
    .m_doc = "Loads the best kernel library of this wheel that the CPU can run; see __isa__ and __isas__.",
    .m_slots = SLOTS,
};

PyMODINIT_FUNC MODULE_INIT(void) {
    return PyModuleDef_Init(&MODULE);
}
