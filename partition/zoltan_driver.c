/* Zoltan's hypergraph partitioner (PHG) as a program: mpirun -n R driver TASK ANSWER

zoltan.py compiles and runs it. Rank 0 alone touches the files, so that no other machine needs to
see them. All numbers are in the machine's own format.

TASK:   int64 ranks, parts, seed; double tolerance; the bounds of the ranks' slices of vertices, of
        nets and of pins, int64 x (R + 1) each; then the pins of each net (how many), int32; the
        pins, int32; the costs of the nets, float; the weights of the vertices, float.
ANSWER: int64, the bytes of memory that the ranks have needed at most, all together; then the part
        of each vertex, int32. */

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zoltan.h>

static int rank, ranks;

/* What this rank holds. */
static struct {
    int vertices, nets, pins;
    int64_t first_vertex, first_net;
    int32_t *sizes, *pin;
    float *costs, *weights;
} mine;

static void fail(const char *what) {
    fprintf(stderr, "zoltan_driver: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *memory(size_t count, size_t size) {
    void *p = malloc(count ? count * size : 1);
    if (!p) fail("out of memory");
    return p;
}

static void take(void *into, size_t size, size_t count, FILE *file) {
    if (count && fread(into, size, count, file) != count) fail("the task is cut short");
}

/* How much of an array a rank has. */
static int slice(const int64_t *bounds, int of) { return (int)(bounds[of + 1] - bounds[of]); }

/* This rank's slice of an array of numbers of 4 bytes, the next in the task. */
static void *scattered(FILE *task, const int64_t *bounds) {
    int32_t *slice_mine = memory(slice(bounds, rank), 4);
    if (rank) {
        MPI_Recv(slice_mine, slice(bounds, rank), MPI_INT32_T, 0, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        return slice_mine;
    }
    take(slice_mine, 4, slice(bounds, 0), task);
    for (int other = 1; other < ranks; other++) {
        int32_t *theirs = memory(slice(bounds, other), 4);
        take(theirs, 4, slice(bounds, other), task);
        MPI_Send(theirs, slice(bounds, other), MPI_INT32_T, other, 0, MPI_COMM_WORLD);
        free(theirs);
    }
    return slice_mine;
}

/* Zoltan asks for the hypergraph by these. */

static int count_vertices(void *data, int *error) {
    *error = ZOLTAN_OK;
    return mine.vertices;
}

static void list_vertices(void *data, int gid_size, int lid_size, ZOLTAN_ID_PTR gids,
                          ZOLTAN_ID_PTR lids, int weight_size, float *weights, int *error) {
    for (int v = 0; v < mine.vertices; v++) {
        gids[v] = (ZOLTAN_ID_TYPE)(mine.first_vertex + v);
        lids[v] = v;
        weights[v] = mine.weights[v];
    }
    *error = ZOLTAN_OK;
}

static void size_nets(void *data, int *lists, int *pins, int *format, int *error) {
    *lists = mine.nets;
    *pins = mine.pins;
    *format = ZOLTAN_COMPRESSED_EDGE;
    *error = ZOLTAN_OK;
}

static void list_nets(void *data, int gid_size, int lists, int pins, int format,
                      ZOLTAN_ID_PTR net_gids, int *starts, ZOLTAN_ID_PTR pin_gids, int *error) {
    int start = 0;
    for (int e = 0; e < mine.nets; e++) {
        net_gids[e] = (ZOLTAN_ID_TYPE)(mine.first_net + e);
        starts[e] = start;
        start += mine.sizes[e];
    }
    for (int i = 0; i < mine.pins; i++) pin_gids[i] = (ZOLTAN_ID_TYPE)mine.pin[i];
    *error = ZOLTAN_OK;
}

static void size_costs(void *data, int *nets, int *error) {
    *nets = mine.nets;
    *error = ZOLTAN_OK;
}

static void list_costs(void *data, int gid_size, int lid_size, int nets, int cost_size,
                       ZOLTAN_ID_PTR gids, ZOLTAN_ID_PTR lids, float *costs, int *error) {
    for (int e = 0; e < mine.nets; e++) {
        gids[e] = (ZOLTAN_ID_TYPE)(mine.first_net + e);
        lids[e] = e;
        costs[e] = mine.costs[e];
    }
    *error = ZOLTAN_OK;
}

/* The part of each vertex of this rank. */
static int32_t *partitioned(int64_t parts, int64_t seed, double tolerance) {
    struct Zoltan_Struct *zoltan = Zoltan_Create(MPI_COMM_WORLD);
    char numbers[3][32];
    snprintf(numbers[0], sizeof numbers[0], "%lld", (long long)parts);
    snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)seed);
    snprintf(numbers[2], sizeof numbers[2], "%.9f", 1 + tolerance);
    const char *settings[][2] = {
        {"DEBUG_LEVEL", "0"},           {"LB_METHOD", "HYPERGRAPH"},
        {"HYPERGRAPH_PACKAGE", "PHG"},  {"LB_APPROACH", "PARTITION"},
        {"NUM_GID_ENTRIES", "1"},       {"NUM_LID_ENTRIES", "1"},
        {"OBJ_WEIGHT_DIM", "1"},        {"EDGE_WEIGHT_DIM", "1"},
        {"RETURN_LISTS", "PARTS"},      {"PHG_CUT_OBJECTIVE", "CONNECTIVITY"},
        {"NUM_GLOBAL_PARTS", numbers[0]}, {"SEED", numbers[1]},
        {"IMBALANCE_TOL", numbers[2]},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (Zoltan_Set_Param(zoltan, settings[i][0], settings[i][1]) != ZOLTAN_OK)
            fail(settings[i][0]);
    Zoltan_Set_Num_Obj_Fn(zoltan, count_vertices, NULL);
    Zoltan_Set_Obj_List_Fn(zoltan, list_vertices, NULL);
    Zoltan_Set_HG_Size_CS_Fn(zoltan, size_nets, NULL);
    Zoltan_Set_HG_CS_Fn(zoltan, list_nets, NULL);
    Zoltan_Set_HG_Size_Edge_Wts_Fn(zoltan, size_costs, NULL);
    Zoltan_Set_HG_Edge_Wts_Fn(zoltan, list_costs, NULL);

    int changes, gid_size, lid_size, imports, exports;
    ZOLTAN_ID_PTR import_gids, import_lids, export_gids, export_lids;
    int *import_ranks, *import_parts, *export_ranks, *export_parts;
    int code = Zoltan_LB_Partition(zoltan, &changes, &gid_size, &lid_size, &imports, &import_gids,
                                   &import_lids, &import_ranks, &import_parts, &exports,
                                   &export_gids, &export_lids, &export_ranks, &export_parts);
    if (code != ZOLTAN_OK && code != ZOLTAN_WARN) fail("Zoltan found no partition");
    if (exports != mine.vertices) fail("Zoltan's partition lacks vertices");
    int32_t *part = memory(mine.vertices, 4);
    for (int i = 0; i < exports; i++) part[export_lids[i]] = export_parts[i];
    Zoltan_LB_Free_Part(&import_gids, &import_lids, &import_ranks, &import_parts);
    Zoltan_LB_Free_Part(&export_gids, &export_lids, &export_ranks, &export_parts);
    Zoltan_Destroy(&zoltan);
    return part;
}

static void write_answer(const char *path, const int64_t *bounds, const int32_t *part) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    int64_t peak = (int64_t)usage.ru_maxrss * 1024, peaks;
    MPI_Reduce(&peak, &peaks, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank) {
        MPI_Send(part, mine.vertices, MPI_INT32_T, 0, 0, MPI_COMM_WORLD);
        return;
    }
    FILE *answer = fopen(path, "wb");
    if (!answer) fail("the answer can't be written");
    fwrite(&peaks, sizeof peaks, 1, answer);
    fwrite(part, 4, mine.vertices, answer);
    for (int other = 1; other < ranks; other++) {
        int32_t *theirs = memory(slice(bounds, other), 4);
        MPI_Recv(theirs, slice(bounds, other), MPI_INT32_T, other, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        fwrite(theirs, 4, slice(bounds, other), answer);
        free(theirs);
    }
    if (ferror(answer) | fclose(answer)) fail("the answer can't be written");
}

/* mpirun passes its standard input on to rank 0; it stays open as long as our caller lives. */
static void *end_with_caller(void *unused) {
    char byte;
    while (read(0, &byte, 1) > 0) {}
    _exit(1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3) fail("usage: zoltan_driver TASK ANSWER");
    pthread_t lifeline;
    if (!rank && pthread_create(&lifeline, NULL, end_with_caller, NULL)) fail("no thread");

    FILE *task = NULL;
    int64_t head[3], *bounds[3];
    double tolerance;
    if (!rank) {
        if (!(task = fopen(argv[1], "rb"))) fail("the task can't be read");
        take(head, sizeof *head, 3, task);
        take(&tolerance, sizeof tolerance, 1, task);
    }
    MPI_Bcast(head, 3, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Bcast(&tolerance, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (head[0] != ranks) fail("the task is for another number of ranks");
    for (int i = 0; i < 3; i++) {
        bounds[i] = memory(ranks + 1, sizeof **bounds);
        if (!rank) take(bounds[i], sizeof **bounds, ranks + 1, task);
        MPI_Bcast(bounds[i], ranks + 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    }
    int64_t *vertices = bounds[0], *nets = bounds[1], *pins = bounds[2];
    mine.vertices = slice(vertices, rank);
    mine.nets = slice(nets, rank);
    mine.pins = slice(pins, rank);
    mine.first_vertex = vertices[rank];
    mine.first_net = nets[rank];
    mine.sizes = scattered(task, nets);
    mine.pin = scattered(task, pins);
    mine.costs = scattered(task, nets);
    mine.weights = scattered(task, vertices);

    float version;
    if (Zoltan_Initialize(argc, argv, &version) != ZOLTAN_OK) fail("Zoltan can't be initialised");
    write_answer(argv[2], vertices, partitioned(head[1], head[2], tolerance));
    MPI_Finalize();
    return 0;
}
