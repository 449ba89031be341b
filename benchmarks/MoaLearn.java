// Times one MOA learner in its own JVM on rows that benchmarks/moa.py wrote.
//
//   java -cp moa.jar MoaLearn.java ROWS PASSES LEARNER
//
// Every row is a MOA instance before the clock starts, and the clock is the CPU time of this
// thread alone: the JIT compiler and the garbage collector work for free. In each pass the learner
// begins anew twice, once training only and once predicting each row before it is learned; the
// best pass counts, so that the JVM is warm. One line of JSON on standard output.
import com.github.javacliparser.ClassOption;
import com.yahoo.labs.samoa.instances.Attribute;
import com.yahoo.labs.samoa.instances.DenseInstance;
import com.yahoo.labs.samoa.instances.Instance;
import com.yahoo.labs.samoa.instances.Instances;
import com.yahoo.labs.samoa.instances.InstancesHeader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import moa.classifiers.Classifier;
import moa.core.Measurement;
import moa.core.Utils;

public class MoaLearn {
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] args) throws Exception {
        Instance[] rows = read(Path.of(args[0]));
        int passes = Integer.parseInt(args[1]);
        InstancesHeader header = (InstancesHeader) rows[0].dataset();
        double train = Double.MAX_VALUE, both = Double.MAX_VALUE;
        int right = 0;
        Classifier learner = null;
        for (int pass = 0; pass < passes; pass++) {
            learner = fresh(args[2], header);
            long began = THREADS.getCurrentThreadCpuTime();
            for (Instance row : rows) learner.trainOnInstance(row);
            train = Math.min(train, THREADS.getCurrentThreadCpuTime() - began);
            learner = fresh(args[2], header);
            right = 0;
            began = THREADS.getCurrentThreadCpuTime();
            for (Instance row : rows) {
                if (Utils.maxIndex(learner.getVotesForInstance(row)) == (int) row.classValue()) right++;
                learner.trainOnInstance(row);
            }
            both = Math.min(both, THREADS.getCurrentThreadCpuTime() - began);
        }
        double nodes = 0;
        for (Measurement m : learner.getModelMeasurements())
            if (m.getName().equals("tree size (nodes)")) nodes = m.getValue();
        System.out.printf(Locale.ROOT,
            "{\"train\": %.6f, \"prequential\": %.6f, \"accuracy\": %.6f, \"nodes\": %.0f, \"bytes\": %d}%n",
            train / 1e9, both / 1e9, right / (double) rows.length, nodes, learner.measureByteSize());
    }

    static Classifier fresh(String line, InstancesHeader header) throws Exception {
        Classifier learner = (Classifier) ClassOption.cliStringToObject(line, Classifier.class, null);
        learner.setModelContext(header);
        learner.prepareForUse();
        return learner;
    }

    // int32 rows, columns, classes, 0; int32 values of each column (0 = numeric); float64 rows; int32 labels
    static Instance[] read(Path path) throws Exception {
        try (FileChannel file = FileChannel.open(path)) {
            MappedByteBuffer in = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            in.order(ByteOrder.LITTLE_ENDIAN);
            int count = in.getInt(), columns = in.getInt(), classes = in.getInt();
            in.getInt();
            List<Attribute> attributes = new ArrayList<>();
            for (int j = 0; j < columns; j++) {
                int values = in.getInt();
                attributes.add(values == 0 ? new Attribute("a" + j) : new Attribute("a" + j, names(values)));
            }
            attributes.add(new Attribute("class", names(classes)));
            InstancesHeader header = new InstancesHeader(new Instances("rows", attributes, 0));
            header.setClassIndex(columns);
            ByteBuffer labels = in.duplicate().order(ByteOrder.LITTLE_ENDIAN);
            labels.position(in.position() + 8 * count * columns);
            Instance[] rows = new Instance[count];
            for (int i = 0; i < count; i++) {
                double[] cells = new double[columns + 1];
                for (int j = 0; j < columns; j++) cells[j] = in.getDouble();
                cells[columns] = labels.getInt();
                rows[i] = new DenseInstance(1.0, cells);
                rows[i].setDataset(header);
            }
            return rows;
        }
    }

    static List<String> names(int count) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < count; i++) names.add("v" + i);
        return names;
    }
}
