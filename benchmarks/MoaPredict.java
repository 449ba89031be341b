// Times getVotesForInstance of a MOA learner inside its own JVM, for benchmarks/predict.py.
//
//   java -cp moa.jar MoaPredict.java FILE TRAINED PASSES LEARNER
//
// FILE, little endian: rows, attributes, classes; the values of each attribute (0: a number);
// all rows as doubles; all labels. The first TRAINED rows are learned, then all rows are predicted
// PASSES times, and the best pass counts: CPU time of this thread, so the collector and the compiler
// of the JVM cost nothing. Instances are made before the clock starts.
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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import moa.classifiers.Classifier;
import moa.core.Measurement;
import moa.core.Utils;

public class MoaPredict {
    public static void main(String[] args) throws Exception {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        in.order(ByteOrder.LITTLE_ENDIAN);
        int rows = in.getInt(), width = in.getInt(), classes = in.getInt();
        List<Attribute> attributes = new ArrayList<>();
        for (int j = 0; j < width; j++) {
            int values = in.getInt();
            attributes.add(values == 0 ? new Attribute("a" + j) : new Attribute("a" + j, names(values)));
        }
        attributes.add(new Attribute("class", names(classes)));
        InstancesHeader header = new InstancesHeader(new Instances("rows", attributes, 0));
        header.setClassIndex(width);
        Instance[] instances = new Instance[rows];
        for (int i = 0; i < rows; i++) {
            double[] values = new double[width + 1];
            for (int j = 0; j < width; j++) values[j] = in.getDouble();
            instances[i] = new DenseInstance(1.0, values);
            instances[i].setDataset(header);
        }
        for (int i = 0; i < rows; i++) instances[i].setClassValue(in.getInt());

        Classifier tree = (Classifier) ClassOption.cliStringToObject(args[3], Classifier.class, null);
        tree.setModelContext(header);
        tree.prepareForUse();
        int trained = Integer.parseInt(args[1]);
        for (int i = 0; i < trained; i++) tree.trainOnInstance(instances[i]);

        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long best = Long.MAX_VALUE, right = 0;
        for (int pass = 0; pass < Integer.parseInt(args[2]); pass++) {
            long began = clock.getCurrentThreadCpuTime();
            right = 0;
            for (Instance row : instances) {
                if (Utils.maxIndex(tree.getVotesForInstance(row)) == (int) row.classValue()) right++;
            }
            best = Math.min(best, clock.getCurrentThreadCpuTime() - began);
        }
        double nodes = 0;
        for (Measurement m : tree.getModelMeasurements()) {
            if (m.getName().equals("tree size (nodes)")) nodes = m.getValue();
        }
        System.out.printf(
            "{\"seconds\": %.9f, \"nodes\": %.0f, \"accuracy\": %.5f}%n", best / 1e9, nodes, right / (double) rows);
    }

    static List<String> names(int count) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < count; i++) names.add("v" + i);
        return names;
    }
}
