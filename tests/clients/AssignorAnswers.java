import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * For each line "assignor topic=racks,... member=hex ..." who gets what: the racks of a topic's partitions stand
 * between semicolons, joined by plus signs, or - for none; a subscription is its bytes in hex.
 */
public class AssignorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Map<String, List<PartitionInfo>> topics = new HashMap<>();
            for (String topic : words[1].split(",")) {
                topics.put(topic.split("=")[0], partitions(topic.split("=")[0], topic.split("=")[1].split(";")));
            }
            Map<String, Subscription> subscriptions = new HashMap<>();
            for (String member : Arrays.copyOfRange(words, 2, words.length)) {
                String[] parts = member.split("=");
                subscriptions.put(parts[0], ConsumerProtocol.deserializeSubscription(bytes(parts[1])));
            }
            Map<String, List<TopicPartition>> given = new TreeMap<>(
                named(words[0]).assignPartitions(topics, subscriptions));
            List<String> answer = new ArrayList<>();
            given.forEach((member, partitions) -> answer.add(member + "=" + partitions.stream()
                .map(each -> each.topic() + ":" + each.partition()).sorted().collect(Collectors.joining(","))));
            System.out.println(String.join(" ", answer));
        }
    }

    private static List<PartitionInfo> partitions(String topic, String[] racks) {
        List<PartitionInfo> found = new ArrayList<>();
        for (int number = 0; number < racks.length; number++) {
            String[] named = racks[number].split("\\+");
            Node[] replicas = new Node[named.length];
            for (int place = 0; place < named.length; place++) {
                replicas[place] = new Node(place, "host", 9092, named[place].equals("-") ? null : named[place]);
            }
            found.add(new PartitionInfo(topic, number, replicas[0], replicas, replicas));
        }
        return found;
    }

    private static AbstractPartitionAssignor named(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static ByteBuffer bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int index = 0; index < found.length; index++) {
            found[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return ByteBuffer.wrap(found);
    }
}
